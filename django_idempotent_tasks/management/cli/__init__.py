"""Parts that the subcommands of ``idem`` share: arguments, options, what is chosen, how it is reported."""
