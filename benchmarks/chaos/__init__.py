"""A chaos run: thousands of calls of every kind under faults of every kind, judged by SQL alone."""
