"""A small Django app with a Celery app of its own: what the worker processes of the tests run."""
