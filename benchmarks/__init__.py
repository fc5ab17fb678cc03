"""Measures guarded tasks beside plain Celery doing the same work: ``python -m benchmarks``."""
