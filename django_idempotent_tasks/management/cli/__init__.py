"""Parts that the sub-commands of ``idem`` share: options, their values, selections and reports."""
