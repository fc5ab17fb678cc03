"""What a worker's parent writes for revoked, expired and unknown messages."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

from ..conf import settings
from ..ledger import undone
from ..ledger.failures import failure_of
from ..ledger.misnamed import put_right
from ..ledger.rules import is_foreign
from ..ledger.stores import LedgerStore
from ..ledger.values import Call, Entry
from ..messages.header import carried
from ..states import Category, State
from . import revocations
from .breaker import breaker, on_own_connection
from .calls import is_atomic, named_call
from .deaths import announce_end

logger = logging.getLogger("django_idempotent_tasks")

#: So many sendings of an unknown task are refused before its key is given up.
UNKNOWN_LIMIT = 10
#: Revoked calls that one statement cancels.
REVOKED = 500


def cancel_revoked(sender: Any, request: Any, *, terminated: bool, expired: bool) -> None:
    """A revoked call's key ends as CANCELLED: without that its lease would bring it back.

    An expired message ends only a key that was never started. A copy that is dropped before it
    starts leaves a delivery alone that runs meanwhile: only ``terminate`` ends that one.
    """
    if not getattr(sender, "idempotency_guarded", False):
        return

    call = named_call(sender, vars(request), request.id, request.args, request.kwargs)
    if call is None:
        return

    if terminated and is_atomic(sender):
        undone.record_soon(breaker.guard, sender, undone.stored(sender, call, request), undone.cancelled)
        return

    def work(store: LedgerStore) -> None:
        right = put_right(store, call)
        digest, window = right.identity.digest, settings().redelivery_window
        entry = _own_row(store, right)
        if entry is None:
            return
        if expired:
            store.expire(digest, task_id=request.id, window=window)
        elif terminated or not revocations.is_beyond(entry, request, task=sender.name):
            store.cancel(digest, window=window, task_id=request.id)

    breaker.guard(lambda: on_own_connection(work))


def _own_row(store: LedgerStore, call: Call) -> Entry | None:
    """The row of the key that a message names; None without one, and for that of another task or scope."""
    entry = store.read(call.identity.digest, task_id=call.task_id)
    if entry is None or not is_foreign(entry, call):
        return entry
    logger.warning(
        "%s (%s) named the key %s of another task or scope", call.task, call.task_id, call.identity.digest
    )
    return None


def cancel_waiting(task_ids: Iterable[str]) -> None:
    """Cancel revoked calls that wait in the ledger: a worker's own memory of them ends with it."""

    def work(store: LedgerStore) -> None:
        for some in _parts(list(task_ids)):
            store.cancel_waiting(some, window=settings().redelivery_window)
            revocations.heard(store, some)

    breaker.guard(lambda: on_own_connection(work))


def _parts(task_ids: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(task_ids), REVOKED):
        yield task_ids[start : start + REVOKED]


def fail_unknown(name: str, task_id: str, headers: Any) -> None:
    """A message for a task that no worker knows: after ``UNKNOWN_LIMIT`` sendings its key is FAILED."""
    own = carried(headers, task_name=name, task_id=task_id)
    if own is None:
        return
    call = Call(own.identity, name, task_id, None)
    error = LookupError(f"No worker knows a task {name!r}; deploy it, then redrive this.")
    failure = failure_of(error, task=name, category=Category.FATAL)

    def work(store: LedgerStore) -> None:
        retention = settings().dead_letter_retention
        again = UNKNOWN_LIMIT - 1  # the first sending is not counted
        if _own_row(store, call) is not None and store.fail_unknown(
            call.identity.digest, task_id=task_id, sends=again, failure=failure, retention=retention
        ):
            announce_end(call, State.FAILED, failure)

    breaker.guard(lambda: on_own_connection(work))
