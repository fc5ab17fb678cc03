"""Ends work that waits or runs: the first of cancel and completion wins."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from .conf import settings
from .identity import UNSET, stated_digest
from .models import AnsweredCall, IdempotencyKey
from .states import LIVE, State
from .stores import get_store

CANCELLED = "cancelled"
FINISHED = "finished"
FINISHING = "finishing"
NOT_FOUND = "not_found"


def cancel(task: Any, *, task_id: str | None, idempotency_key: object, scope: object, terminate: bool) -> str:
    """See ``IdempotentTask.cancel``. Raises TypeError without any of ``task_id`` and ``idempotency_key``."""
    if task_id is None and idempotency_key is UNSET:
        msg = f"Say what to cancel of {task.name}: task_id=... or idempotency_key=..."
        raise TypeError(msg)
    digest = None
    if idempotency_key is not UNSET:
        digest = stated_digest(task.name, idempotency_key=idempotency_key, scope=scope)
    row = _row(task.name, digest, task_id)
    if row is None:
        return _replaced(digest, task_id)
    return _cancel(task, row, task_id, terminate=terminate)


def _cancel(task: Any, row: IdempotencyKey, task_id: str | None, *, terminate: bool) -> str:
    window = settings().redelivery_window
    if get_store().cancel(row.digest, window=window, task_id=task_id):
        if terminate and row.state == State.RUNNING:
            task.app.control.revoke(row.runner_task_id or row.task_id, terminate=True)
        return CANCELLED
    row.refresh_from_db(fields=["state"])
    if row.state in LIVE:
        return FINISHING  # its row is locked by a transaction that ends it
    return CANCELLED if row.state == State.CANCELLED else FINISHED


def _row(task: str, digest: UUID | None, task_id: str | None) -> IdempotencyKey | None:
    rows = IdempotencyKey.objects.using(settings().database).filter(task=task)
    if digest is not None:
        rows = rows.filter(digest=digest)
    return rows.filter(task_id=task_id).first() if task_id is not None else rows.first()


def _replaced(digest: UUID | None, task_id: str | None) -> str:
    """A call whose key belongs to a later call has ended."""
    if task_id is None:
        return NOT_FOUND
    answered = AnsweredCall.objects.using(settings().database).filter(task_id=task_id)
    if digest is not None:
        answered = answered.filter(digest=digest)
    return FINISHED if answered.exists() else NOT_FOUND
