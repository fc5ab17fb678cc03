"""Runs a captured failure of a plain task again: its call is published anew, under a new task id."""

from __future__ import annotations

from uuid import uuid4

from celery import Celery

from .message import Message
from .models import FailedJob
from .relay import bounded_connection

#: What a message remembers of its first life: counts, its end, whom a group and a caller wait for.
_OF_BEFORE = frozenset(
    {"task_id", "retries", "expires", "eta", "group_id", "group_index", "chord", "reply_to"}
)


def can_rerun(job: FailedJob) -> bool:
    """Whether it is a plain task's, with its message. A guarded one's key is redriven instead."""
    return job.digest is None and job.message is not None


def rerun(app: Celery, job: FailedJob) -> str:
    """Publish it, and return the new task id.

    The failed job stays as it is. Raises ValueError for a message that cannot be read, and what the
    transport raises; a broker that is away is given up within seconds.
    """
    message = Message.decode(job.task, job.message or "")
    task_id = str(uuid4())
    options = {name: value for name, value in message.options.items() if name not in _OF_BEFORE}
    options |= {"task_id": task_id, "root_id": task_id}
    with bounded_connection(app) as connection:
        connection.ensure_connection(max_retries=1, interval_start=0, timeout=2)
        Message(job.task, message.args, message.kwargs, options).publish(app, connection=connection)
    return task_id
