"""Ends work that waits or runs: the first of cancel and completion wins."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db import transaction

from .conf import settings
from .identity import UNSET, stated_digest
from .models import AnsweredCall, IdempotencyKey
from .relay import bounded_connection
from .states import LIVE, State
from .stores import get_store

logger = logging.getLogger("django_idempotent_tasks")

CANCELLED = "cancelled"
FINISHED = "finished"
FINISHING = "finishing"
NOT_FOUND = "not_found"

#: A heartbeat or a claim locks a row for a moment, a completion for longer: so many looks, so far apart.
LOOKS = 5
PACE = 0.05


def cancel(task: Any, *, task_id: str | None, idempotency_key: object, scope: object, terminate: bool) -> str:
    """See ``IdempotentTask.cancel``. Raises TypeError without any of ``task_id`` and ``idempotency_key``."""
    stated = idempotency_key is not UNSET and idempotency_key is not None
    if task_id is None and not stated:
        msg = f"Say what to cancel of {task.name}: task_id=... or idempotency_key=..."
        raise TypeError(msg)
    digest = stated_digest(task.name, idempotency_key=idempotency_key, scope=scope) if stated else None
    for look in range(LOOKS):
        if look:
            time.sleep(PACE)
        row = _row(task.name, digest, task_id)
        if row is None:
            return _replaced(digest, task_id)
        if row.state not in LIVE:
            return CANCELLED if row.state == State.CANCELLED else FINISHED
        if get_store().cancel(row.digest, window=settings().redelivery_window, task_id=task_id):
            if terminate:
                _terminate(task.app, row)
            return CANCELLED
    return FINISHING  # its row is locked by a transaction that ends it


def _row(task: str, digest: UUID | None, task_id: str | None) -> IdempotencyKey | None:
    rows = IdempotencyKey.objects.using(settings().database).filter(task=task)
    if digest is not None:
        rows = rows.filter(digest=digest)
    if task_id is None:
        return rows.first()
    accepted = rows.filter(task_id=task_id).first()
    # No index names those who took over, but few keys run at one time.
    return accepted or rows.filter(state=State.RUNNING, runner_task_id=task_id).first()


def _replaced(digest: UUID | None, task_id: str | None) -> str:
    """A call whose key belongs to a later call has ended."""
    if task_id is None:
        return NOT_FOUND
    answered = AnsweredCall.objects.using(settings().database).filter(task_id=task_id)
    if digest is not None:
        answered = answered.filter(digest=digest)
    answer = answered.first()
    if answer is None:
        return NOT_FOUND
    return CANCELLED if answer.state == State.CANCELLED else FINISHED


def _terminate(app: Any, row: IdempotencyKey) -> None:
    """Interrupt the body once the cancellation has committed; without a broker it goes on, to no effect."""

    def interrupt() -> None:
        row.refresh_from_db(fields=["runner_task_id"])
        _interrupt(app, filter(None, (row.task_id, row.runner_task_id)))

    transaction.on_commit(interrupt, using=settings().database, robust=True)


def _interrupt(app: Any, task_ids: Iterable[str]) -> None:
    try:
        with bounded_connection(app) as connection:  # Celery's own would wait for a broker that is down
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=1)
        app.control.revoke(list(task_ids), terminate=True)
    except Exception as error:  # noqa: BLE001  every transport has its own errors
        logger.warning("A cancelled body was not interrupted (%r); it cannot complete its key", error)
