"""Celery's worker process: what it does at its start and end, and for children that died or were killed.

Code that runs in the pool's parent process, or that Celery's worker signals call, belongs in here. Code of
the process that runs a task's body stands in ``running``.
"""
