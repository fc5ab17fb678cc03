"""Jobs a second beside plain Celery and other guards, with real workers."""
