"""A printer of badges: its own process and store, no Django, one sheet for each key of a job."""
