"""Carries out ``task.cancel()``: a waiting or running call ends, unless its completion commits first."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from threading import Thread
from typing import Any
from uuid import UUID

from celery.backends.base import DisabledBackend
from django.db import connections

from ..conf import settings
from ..exceptions import InvalidKey
from ..identity.key import Identity, stated_digest
from ..identity.names import is_same
from ..identity.rules import UNSET
from ..ledger import rows
from ..ledger.stores import LedgerStore, commits, get_store
from ..ledger.stores.connection import in_the_callers
from ..ledger.values import Call
from ..messages.header import task_id_problem
from ..messages.publication import is_rpc
from ..messages.relay import bounded_connection
from ..models import IdempotencyKey
from ..states import LIVE, State
from .batch_following import follow_soon

logger = logging.getLogger("django_idempotent_tasks")

CANCELLED = "cancelled"
FINISHED = "finished"
FINISHING = "finishing"
NOT_FOUND = "not_found"

#: How often a locked row is tried, and the seconds between: a heartbeat or a claim locks it for a moment,
#: a completion for longer.
LOOKS = 5
PACE = 0.05
#: Seconds to wait for the result backend.
BACKEND_LIMIT = 2.0


def cancel(task: Any, *, task_id: str | None, idempotency_key: object, scope: object, terminate: bool) -> str:
    """See ``IdempotentTask.cancel``.

    Raises TypeError without ``task_id`` and ``idempotency_key``, InvalidKey for a value that can be neither.
    """
    digest = _stated_digest_of(task, task_id, idempotency_key, scope)
    with in_the_callers(get_store().connection, at_any_cost=False):
        return _cancel(task, digest, task_id, terminate=terminate)


def _cancel(task: Any, digest: UUID | None, task_id: str | None, *, terminate: bool) -> str:
    policy = getattr(task, "idempotency_policy", None)  # none where the options are wrong
    follows = policy is not None and policy.follows
    for look in range(LOOKS):
        if look:
            time.sleep(PACE)
        if follows and _cancel_follow_up(task, digest, task_id):
            return CANCELLED
        row = _row(task.name, digest, task_id)
        if row is None and not _is_held_without_a_row(task.name, digest):
            return _end_of_replaced(digest, task_id)
        if row is None:
            continue
        if row.state not in LIVE:
            return CANCELLED if row.state == State.CANCELLED else FINISHED
        if get_store().cancel(row.digest, window=settings().redelivery_window, task_id=task_id):
            follow_soon(get_store(), row.digest)
            _follow_up(task, row, terminate=terminate)
            return CANCELLED
    return FINISHING  # a transaction that is ending the call has locked its row


def cancel_key(store: LedgerStore, row: IdempotencyKey) -> bool:
    """Cancel the call that ``row`` shows, and what follows it; False where it has ended or is locked."""
    window = settings().redelivery_window
    with store.together():  # or a sweeper could give the cancelled key to what follows
        if not store.cancel(row.digest, window=window, task_id=row.task_id):
            return False
        if rows.follow_up_of(row) is not None:
            store.cancel_follow_up(window=window, digest=row.digest)
    return True


def _cancel_follow_up(task: Any, digest: UUID | None, task_id: str | None) -> bool:
    """Cancel the follow-up: that call alone where it is named, else before the call of the stated key.

    True where nothing is left to cancel.
    """
    store, window = get_store(), settings().redelivery_window
    if task_id is None:
        has_ended = store.cancel_follow_up(window=window, digest=digest)
        row = None if digest is None else rows.of_key(digest)
        return has_ended and (row is None or row.state not in LIVE)
    row = rows.of_follow_up(task_id, task=task.name, digest=digest)
    if row is None or not store.cancel_follow_up(window=window, digest=row.digest, task_id=task_id):
        return False
    _after_commit(task_id, lambda: _revoke_in_backend(task, [task_id]))
    return True


def _stated_digest_of(task: Any, task_id: str | None, idempotency_key: object, scope: object) -> UUID | None:
    """The digest of the stated key; None where only a task id was stated."""
    stated = idempotency_key is not UNSET and idempotency_key is not None
    if task_id is None and not stated:
        msg = f"Name the call of {task.name} to cancel: task_id=... or idempotency_key=..."
        raise TypeError(msg)
    problem = None if task_id is None else task_id_problem(task_id)
    if problem is not None:
        msg = f"A task id of {task.name} {problem}."
        raise InvalidKey(msg)
    return stated_digest(task.name, idempotency_key=idempotency_key, scope=scope) if stated else None


def _is_held_without_a_row(task: str, digest: UUID | None) -> bool:
    """Whether an open transaction holds a key whose row is not committed: an atomic run, or a reservation.

    Always False inside a transaction: asking there would hold the key until that transaction ends.
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
    return row if row is not None and is_same(row.task, task) else None


def _end_of_replaced(digest: UUID | None, task_id: str | None) -> str:
    """How a call ended whose key a later call has now."""
    if task_id is None:
        return NOT_FOUND
    answer = rows.ended(task_id, digest=digest)
    if answer is None:
        return NOT_FOUND
    return CANCELLED if answer.state == State.CANCELLED else FINISHED


def _follow_up(task: Any, row: IdempotencyKey, *, terminate: bool) -> None:
    """After the commit, mark the call revoked in the result backend; with ``terminate`` interrupt its body.

    Without a broker the body runs on, but cannot complete its key.
    """

    def follow_up() -> None:
        row.refresh_from_db(fields=["runner_task_id"])
        task_ids = [each for each in (row.task_id, row.runner_task_id) if each]
        _revoke_in_backend(task, task_ids)
        if terminate:
            _interrupt(task.app, task_ids)

    _after_commit(row.task_id, follow_up)


def _after_commit(task_id: str, work: Callable[[], None]) -> None:
    if not commits.after_commit(get_store().connection, work):
        logger.warning(
            "Manual transaction management: neither result backend nor worker learns that %s was cancelled",
            task_id,
        )


def _revoke_in_backend(task: Any, task_ids: list[str]) -> None:
    """Write the revocation where readers of the result look, but wait for a silent backend not for long."""
    backend = task.backend
    if task.ignore_result or is_rpc(task.app) or isinstance(backend, DisabledBackend):
        return
    writer = Thread(target=_mark_revoked, args=(backend, task_ids), name="idempotent-revoked", daemon=True)
    writer.start()
    writer.join(BACKEND_LIMIT)
    if writer.is_alive():
        logger.warning(
            "The result backend did not store that %s was cancelled within %s s", task_ids, BACKEND_LIMIT
        )


def _mark_revoked(backend: Any, task_ids: list[str]) -> None:
    try:
        for task_id in task_ids:
            backend.mark_as_revoked(task_id, CANCELLED)
    except Exception as error:  # noqa: BLE001  every backend has its own errors
        logger.warning("The result backend did not store that %s was cancelled (%r)", task_ids, error)
    finally:
        connections.close_all()  # those of this thread, which a backend in the database opened


def _interrupt(app: Any, task_ids: Iterable[str]) -> None:
    try:
        with bounded_connection(
            app
        ) as connection:  # Celery's own connection would wait for a broker that is down
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=1)
        app.control.revoke(list(task_ids), terminate=True)
    except Exception as error:  # noqa: BLE001  every transport has its own errors
        logger.warning("A cancelled body was not interrupted (%r); it cannot complete its key", error)
