"""Runs one delivery: from Celery's call of a task to the settled claim. Start at ``runner.py``.

What happens to a delivered message in the process that runs its body comes in here. What others do for
a process that can no longer speak stands in ``worker`` and ``sweeper``. Empty, as ``sending`` is.
"""
