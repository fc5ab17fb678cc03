"""django-tasks-db: the job as a task of ``django.tasks``, or of django-tasks before Django 6."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import django
from django.core.management import call_command

from benchmarks.alternatives import job
from benchmarks.alternatives.sender import Sender

_tasks: Any = import_module("django.tasks" if django.VERSION >= (6, 0) else "django_tasks")


def _write(batch: str, number: int, note: str) -> None:
    job.write(batch, number, note)


_write.__qualname__ = "write"
#: Its workers import it by this name.
write: Any = _tasks.task()(_write)


def sender() -> Sender:
    """How it takes jobs: none is refused, and many are a loop."""
    return Sender(
        lambda arguments: write.enqueue(**arguments),
        lambda jobs: [write.enqueue(**arguments) for arguments in jobs],
    )


def work() -> None:
    """Work off the queue."""
    call_command("db_worker", "--batch", "--no-startup-delay", verbosity=0)
