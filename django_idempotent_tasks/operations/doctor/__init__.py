"""What ``idem doctor`` looks at: settings, tasks, broker, database, workers and beat, a module for each.

A check reads values and says what it saw; whatever asks a server is in the modules that end in ``live``.
"""
