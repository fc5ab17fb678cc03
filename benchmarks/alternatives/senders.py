"""The ways to send the job by Celery: plain, and guarded by this package."""

from __future__ import annotations

from typing import Any

from celery import Celery

from benchmarks.alternatives.sender import Sender
from django_idempotent_tasks import IdempotentTask

PLAIN = "plain Celery"
_KEY = ("batch", "number")


def senders(app: Celery) -> dict[str, Sender]:
    """By name."""
    plain = _task(app, "alternatives.plain")
    guarded = _task(app, "alternatives.guarded", base=IdempotentTask, key=_KEY)
    reserving = _task(app, "alternatives.reserving", base=IdempotentTask, key=_KEY, reserve=True)
    return {
        PLAIN: _looping(plain),
        "ours, not reserved": _looping(guarded),
        "ours, reserved": Sender(
            lambda arguments: reserving.delay(**arguments),
            lambda jobs: reserving.submit_many({"kwargs": arguments} for arguments in jobs),
            lambda arguments: reserving.delay(**arguments | {"number": -1}),
        ),
    }


def _looping(task: Any) -> Sender:
    return Sender(
        lambda arguments: task.delay(**arguments),
        lambda jobs: [task.delay(**arguments) for arguments in jobs],
        after_commit=True,
    )


def _task(app: Any, name: str, **options: Any) -> Any:
    def run(batch: str, number: int, note: str) -> None:
        """Nobody runs it: its queue has no worker."""

    return app.task(name=name, shared=False, **options)(run)
