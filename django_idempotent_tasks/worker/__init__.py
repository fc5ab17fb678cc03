"""Celery's worker process: what it does at its start and end, and for children that died or were killed.

Whatever the parent of the pool does, or Celery's worker signals call, comes in here. What the process
that runs a body does stands in ``running``.
"""
