"""Ends, in a worker's parent, the keys of revoked and expired calls, and of tasks that no worker knows."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

from ..conf import settings
from ..ledger import orphans
from ..ledger.failures import failure_of
from ..ledger.misnamed import put_right
from ..ledger.rules import is_foreign
from ..ledger.stores import LedgerStore
from ..ledger.values import Call, Entry
from ..messages.header import carried
from ..states import Category
from . import revocations
from .breaker import breaker, on_own_connection
from .calls import is_atomic, named_call, with_message
from .deaths import record_when_free

logger = logging.getLogger("django_idempotent_tasks")

#: How often the message of a task that no worker knows is sent before its key fails.
UNKNOWN_LIMIT = 10
#: Revoked calls that one statement cancels.
REVOKED = 500


def cancel_revoked(sender: Any, request: Any, *, terminated: bool, expired: bool) -> None:
    """Cancel the key of a revoked or expired call: otherwise the sweeper would send the call again.

    An expired message cancels only a key that was never started. A copy that is dropped before it
    starts does not cancel a key that another delivery runs: only ``terminate`` does.
    """
    if not getattr(sender, "idempotency_guarded", False):
        return

    call = named_call(sender, vars(request), request.id, request.args, request.kwargs)
    if call is None:
        return

    if terminated and is_atomic(sender):
        run = with_message(sender, call, request)
        record_when_free(call, lambda: orphans.record_cancel(sender, run))
        return

    def work(store: LedgerStore) -> None:
        right = put_right(store, call)
        digest, window = right.identity.digest, settings().redelivery_window
        entry = _own_row(store, right)
        if entry is None:
            return
        if expired:
            store.expire(digest, task_id=request.id, window=window)
        elif terminated or not revocations.has_moved_on(entry, request, task=sender.name):
            store.cancel(digest, window=window, task_id=request.id)

    breaker.guard(lambda: on_own_connection(work))


def _own_row(store: LedgerStore, call: Call) -> Entry | None:
    """The row of the key that a message names; None without one, or if it is of another task or scope."""
    entry = store.read(call.identity.digest, task_id=call.task_id)
    if entry is None or not is_foreign(entry, call):
        return entry
    logger.warning(
        "%s (%s) named the key %s of another task or scope", call.task, call.task_id, call.identity.digest
    )
    return None


def cancel_waiting(task_ids: Iterable[str]) -> None:
    """Cancel revoked calls that wait in the ledger: what a worker remembers of them ends with the worker."""

    def work(store: LedgerStore) -> None:
        for some in _parts(list(task_ids)):
            store.cancel_waiting(some, window=settings().redelivery_window)
            revocations.note_running(store, some)

    breaker.guard(lambda: on_own_connection(work))


def _parts(task_ids: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(task_ids), REVOKED):
        yield task_ids[start : start + REVOKED]


def fail_unknown(name: str, task_id: str, headers: Any) -> None:
    """Fail the key of a message whose task no worker knows, once it was sent ``UNKNOWN_LIMIT`` times."""
    own = carried(headers, task_name=name, task_id=task_id)
    if own is None:
        return
    call = Call(own.identity, name, task_id, None)
    error = LookupError(f"No worker knows a task {name!r}; deploy it, then redrive this.")
    failure = failure_of(error, task=name, category=Category.FATAL)

    def work(store: LedgerStore) -> None:
        if _own_row(store, call) is not None:
            # The first sending is not counted.
            orphans.fail_unknown(store, call, sends=UNKNOWN_LIMIT - 1, failure=failure)

    breaker.guard(lambda: on_own_connection(work))
