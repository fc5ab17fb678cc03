"""Ends work that waits or runs: the first of cancel and completion wins."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from threading import Thread
from typing import Any
from uuid import UUID

from celery.backends.base import DisabledBackend
from django.db import connections, transaction

from ..conf import settings
from ..exceptions import InvalidKey
from ..identity.key import Identity, stated_digest
from ..identity.rules import UNSET
from ..ledger import rows
from ..ledger.stores import get_store
from ..ledger.values import Call
from ..messages.header import task_id_problem
from ..messages.publication import is_rpc
from ..messages.relay import bounded_connection
from ..models import IdempotencyKey
from ..states import LIVE, State

logger = logging.getLogger("django_idempotent_tasks")

CANCELLED = "cancelled"
FINISHED = "finished"
FINISHING = "finishing"
NOT_FOUND = "not_found"

#: A heartbeat or a claim locks a row for a moment, a completion for longer: so many looks, so far apart.
LOOKS = 5
PACE = 0.05
#: Seconds that the result backend is waited for.
BACKEND_LIMIT = 2.0


def cancel(task: Any, *, task_id: str | None, idempotency_key: object, scope: object, terminate: bool) -> str:
    """See ``IdempotentTask.cancel``.

    Raises TypeError without any of ``task_id`` and ``idempotency_key``, InvalidKey for what can be none.
    """
    digest = _named(task, task_id, idempotency_key, scope)
    for look in range(LOOKS):
        if look:
            time.sleep(PACE)
        row = _row(task.name, digest, task_id)
        if row is None and not _runs_unseen(task.name, digest):
            return _replaced(digest, task_id)
        if row is None:
            continue
        if row.state not in LIVE:
            return CANCELLED if row.state == State.CANCELLED else FINISHED
        if get_store().cancel(row.digest, window=settings().redelivery_window, task_id=task_id):
            _tell(task, row, terminate=terminate)
            return CANCELLED
    return FINISHING  # a transaction that ends it has its row


def _named(task: Any, task_id: str | None, idempotency_key: object, scope: object) -> UUID | None:
    """The digest of a key that was given."""
    stated = idempotency_key is not UNSET and idempotency_key is not None
    if task_id is None and not stated:
        msg = f"Say what to cancel of {task.name}: task_id=... or idempotency_key=..."
        raise TypeError(msg)
    problem = None if task_id is None else task_id_problem(task_id)
    if problem is not None:
        msg = f"A task id of {task.name} {problem}."
        raise InvalidKey(msg)
    return stated_digest(task.name, idempotency_key=idempotency_key, scope=scope) if stated else None


def _runs_unseen(task: str, digest: UUID | None) -> bool:
    """Whether an open transaction has a key without a row: an atomic run, or a reservation.

    Asked outside a transaction only, which would keep the key to itself from then on.
    """
    store = get_store()
    if digest is None or store.connection.in_atomic_block:
        return False
    with store.holding(Call(Identity(digest, None, "", None), task, "", None)) as alone:
        return not alone


def _row(task: str, digest: UUID | None, task_id: str | None) -> IdempotencyKey | None:
    if task_id is not None:
        found = rows.of_call(task_id, task=task, digest=digest)
        return found or rows.taken_over(task_id, task=task, digest=digest)
    row = None if digest is None else rows.of_key(digest)
    return row if row is not None and row.task == task else None


def _replaced(digest: UUID | None, task_id: str | None) -> str:
    """A call whose key belongs to a later call has ended."""
    if task_id is None:
        return NOT_FOUND
    answer = rows.ended(task_id, digest=digest)
    if answer is None:
        return NOT_FOUND
    return CANCELLED if answer.state == State.CANCELLED else FINISHED


def _tell(task: Any, row: IdempotencyKey, *, terminate: bool) -> None:
    """Once the cancellation has committed: who waits for the result, and who runs the body if ``terminate``.

    Without a broker the body goes on, to no effect.
    """

    def tell() -> None:
        row.refresh_from_db(fields=["runner_task_id"])
        task_ids = [each for each in (row.task_id, row.runner_task_id) if each]
        _tell_waiters(task, task_ids)
        if terminate:
            _interrupt(task.app, task_ids)

    connection = connections[settings().database]
    if connection.in_atomic_block or connection.get_autocommit():
        transaction.on_commit(tell, using=connection.alias, robust=True)
    else:
        logger.warning("Manual transaction management: nobody hears of the cancelled %s", row.task_id)


def _tell_waiters(task: Any, task_ids: list[str]) -> None:
    """A result backend tells only what is written to it; one that does not answer is not waited for long."""
    backend = task.backend
    if task.ignore_result or is_rpc(task.app) or isinstance(backend, DisabledBackend):
        return
    teller = Thread(target=_mark_revoked, args=(backend, task_ids), name="idempotent-revoked", daemon=True)
    teller.start()
    teller.join(BACKEND_LIMIT)
    if teller.is_alive():
        logger.warning("The result backend was not told of cancelled %s within %s s", task_ids, BACKEND_LIMIT)


def _mark_revoked(backend: Any, task_ids: list[str]) -> None:
    try:
        for task_id in task_ids:
            backend.mark_as_revoked(task_id, CANCELLED)
    except Exception as error:  # noqa: BLE001  every backend has its own errors
        logger.warning("The result backend was not told of cancelled %s (%r)", task_ids, error)
    finally:
        connections.close_all()  # this thread's, which a backend in the database opened


def _interrupt(app: Any, task_ids: Iterable[str]) -> None:
    try:
        with bounded_connection(app) as connection:  # Celery's own would wait for a broker that is down
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=1)
        app.control.revoke(list(task_ids), terminate=True)
    except Exception as error:  # noqa: BLE001  every transport has its own errors
        logger.warning("A cancelled body was not interrupted (%r); it cannot complete its key", error)
