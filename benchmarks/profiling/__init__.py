"""Where the time of a guarded task goes, in the process that runs it."""
