"""Runs one delivery: from Celery's call of a task to the settled claim. Start at ``runner.py``.

What the process that runs a body does with the delivered message comes in here. What others do for a
process that died stands in ``worker`` and ``sweeper``. Empty, since importing a room must load no models.
"""
