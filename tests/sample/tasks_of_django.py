"""Tasks of ``django.tasks`` that run in Celery's workers."""

from __future__ import annotations

import os
from typing import Any

from asgiref.sync import sync_to_async
from celery import current_task

from django_idempotent_tasks import TransientError, current, idempotent
from django_idempotent_tasks.conf import settings
from django_idempotent_tasks.task.mixin import IdempotentTask
from tests.sample.tasks import journal
from tests.support.framework import TaskContext, task


def _write(key: str, note: str = "") -> None:
    from tests.sample.models import Effect  # noqa: PLC0415  Celery may import this before the models

    Effect.objects.using(settings().database).create(
        key=key, attempt=current.attempt, token=current.token, note=note
    )


@task
def receipt(order: int, to: str = "a@b.example") -> dict[str, Any]:
    """Each call is work of its own."""
    _write(str(order), to)
    return {"order": order, "to": to}


@idempotent(key="order", max_retries=2, default_retry_delay=0)
@task
def charge(order: int, amount: str, faults: int = 0) -> str:
    """Once for each order, as ``@idempotent`` above says; ``faults`` attempts fail first."""
    if current.attempt <= faults:
        raise TransientError(f"fault {current.attempt}")
    _write(str(order), amount)
    return f"{order}: {amount}"


@task
@idempotent(mode="atomic")
def book(order: int) -> int:
    """Its claim, its effect and its completion are one transaction; the options may stand below as well."""
    _write(str(order))
    return order


@task
async def count(word: str) -> int:
    """A coroutine function."""
    await sync_to_async(_write)(word)
    return len(word)


@task(takes_context=True)
def introduced(context: TaskContext[Any, Any], faults: int = 0) -> dict[str, Any]:
    """What a task learns of itself."""
    guarded: Any = current_task
    assert isinstance(guarded, IdempotentTask)
    if context.attempt <= faults:
        raise guarded.retry(countdown=0)
    result = context.task_result
    return {"id": result.id, "attempt": context.attempt, "queue": result.task.queue_name}


@task
def failing(error: str) -> None:
    """Raise an error of this class."""
    raise {"value": ValueError, "exit": SystemExit}[error]("it failed")


@task
def returning(what: str) -> Any:
    """Return something that no JSON is, or something long."""
    return {"set": {1, 2}, "long": "x" * 100_000}[what]


@task
def gated(key: str) -> int:
    """Stop at a gate in the first attempt, where the test kills the process; then write one effect."""
    journal().write("started", key, attempt=current.attempt, pid=os.getpid())
    if current.attempt == 1:
        journal().visit(key)
    _write(key)
    return current.attempt


@task
def told(word: str) -> None:
    """Say in the journal that it has run."""
    journal().write("told", word)
