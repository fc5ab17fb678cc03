"""What a worker's parent process does for a child that can no longer speak: it ends the child's claim."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from billiard.common import human_status
from billiard.einfo import ExceptionWithTraceback  # type: ignore[attr-defined]  # not in its stubs
from billiard.exceptions import TimeLimitExceeded, WorkerLostError
from celery.utils.imports import symbol_by_name

from . import undone
from .conf import settings
from .delivery import is_redelivered
from .encoding import encode_error
from .header import from_header
from .message import HEADER
from .outcomes import Identity
from .owner import instance
from .states import Category, Reason, State
from .stores import LedgerStore, get_store

logger = logging.getLogger("django_idempotent_tasks")

Work = Callable[[LedgerStore, Identity], object]

#: After a write that failed, dead children are left to their leases and the sweeper for so many seconds.
PAUSE = 30.0
#: So many sendings of an unknown task are refused before its key is given up.
UNKNOWN_LIMIT = 10
#: How Celery tells that end: of a child that left by itself then, and of one that the signal struck again.
_TOLD_TO_STOP = (human_status(int(signal.SIGTERM)), human_status(-signal.SIGTERM))


class _Breaker:
    """Keeps a ledger that is down from slowing the parent's event loop again and again."""

    until = 0.0

    def guard(self, work: Callable[[], object]) -> None:
        """Carry ``work`` out unless it failed lately; its errors are logged, never raised."""
        if time.monotonic() < self.until:
            return
        try:
            work()
        except Exception as error:  # noqa: BLE001  the worker must go on whatever this raises
            self.until = time.monotonic() + PAUSE
            logger.warning("The parent could not end a claim (%r); its lease runs out instead", error)


breaker = _Breaker()


class ParentHook:
    """Mixed into Celery's ``Request``: runs in the parent, before Celery puts the message back.

    ``on_failure`` is called for a lost child after its death is certain, and for a hard time limit
    while the child is still being killed: there its settlement is refused from now on, by state.
    """

    def on_failure(self, exc_info: Any, *args: Any, **kwargs: Any) -> Any:
        """End the claim first, so that the copy that Celery sends back finds the key free."""
        error = exc_info.exception
        if isinstance(error, ExceptionWithTraceback):
            error = error.exc
        if isinstance(error, WorkerLostError):
            _for_dead_child(self, _free, None if _was_told_to_stop(error) else undone.crashed)
        elif isinstance(error, TimeLimitExceeded) and _acks_on_timeout(self.task):  # type: ignore[attr-defined]
            text = encode_error(error)
            _for_dead_child(self, _failure_of(text), undone.failed(text))
        return super().on_failure(exc_info, *args, **kwargs)  # type: ignore[misc]


def install(app: Any) -> None:
    """Give every guarded task of the app a ``Request`` with the hook, composed with the task's own."""
    for task in app.tasks.values():
        if getattr(task, "idempotency_guarded", False) and task.idempotency_error is None:
            request = symbol_by_name(task.Request)
            if not issubclass(request, ParentHook):
                type(task).Request = type(request.__name__, (ParentHook, request), {})


def cancel_revoked(sender: Any, request: Any, *, terminated: bool, expired: bool) -> None:
    """A revoked call's key ends as CANCELLED: without that its lease would bring it back.

    An expired message ends only a key that was never started. A copy that is dropped before it
    starts leaves a delivery alone that runs meanwhile: only ``terminate`` ends that one.
    """
    if not getattr(sender, "idempotency_guarded", False):
        return

    identity = _identity(sender, request.headers, request.id, request.args, request.kwargs)
    if identity is None:
        return

    if terminated and _is_atomic(sender):
        call = undone.call_of(sender, identity, request)
        undone.record_soon(breaker.guard, sender, call, undone.cancelled)
        return

    def work(store: LedgerStore) -> None:
        window = settings().redelivery_window
        if expired:
            store.expire(identity.digest, task_id=request.id, window=window)
        elif terminated or not _runs(store, identity.digest, request.id):
            store.cancel(identity.digest, window=window, task_id=request.id)

    breaker.guard(lambda: _on_own_connection(work))


def _runs(store: LedgerStore, digest: UUID, task_id: str) -> bool:
    entry = store.read(digest, task_id=task_id)
    return entry is not None and entry.state is State.RUNNING and not entry.is_open


def cancel_waiting(task_ids: Iterable[str]) -> None:
    """Cancel revoked calls that wait in the ledger: a worker's own memory of them ends with it."""

    def work(store: LedgerStore) -> None:
        for task_id in task_ids:
            store.cancel_waiting(task_id, window=settings().redelivery_window)

    breaker.guard(lambda: _on_own_connection(work))


def fail_unknown(name: str, task_id: str, headers: Any) -> None:
    """A message for a task that no worker knows: after ``UNKNOWN_LIMIT`` sendings its key is FAILED."""
    identity = from_header((headers or {}).get(HEADER), task_name=name, task_id=task_id)
    if identity is None:
        return
    error = encode_error(LookupError(f"No worker knows a task {name!r}; deploy it, then redrive this."))

    def work(store: LedgerStore) -> None:
        retention = settings().dead_letter_retention
        again = UNKNOWN_LIMIT - 1  # the first sending is not counted
        store.fail_unknown(identity.digest, task_id=task_id, sends=again, error=error, retention=retention)

    breaker.guard(lambda: _on_own_connection(work))


def _acks_on_timeout(task: Any) -> bool:
    """Whether a hard time limit ends the message; before Celery 5.7 one option says so for failures too."""
    return bool(getattr(task, "acks_on_timeout", task.acks_on_failure_or_timeout))


def _was_told_to_stop(error: WorkerLostError) -> bool:
    """Whether the child ended by the signal that stops a worker's processes: its body was unwound."""
    return any(f" {status} " in str(error) for status in _TOLD_TO_STOP)


def _is_atomic(task: Any) -> bool:
    return bool(task.idempotency_policy.mode == "atomic")


def _for_dead_child(
    request: Any, work: Callable[[LedgerStore, Identity, str], object], ending: undone.Ending | None
) -> None:
    pid = request.worker_pid
    if pid is None:  # never accepted by a child: nothing was claimed
        return

    identity = _identity(request.task, request.request_dict, request.id, request.args, request.kwargs)
    if identity is None:
        return

    if _is_atomic(request.task):
        if ending is not None:
            _for_undone_run(request, identity, ending)
        return

    def end(store: LedgerStore) -> None:
        work(store, identity, f"{instance()}:{pid}:")

    breaker.guard(lambda: _on_own_connection(end))


def _for_undone_run(request: Any, identity: Identity, ending: undone.Ending) -> None:
    """The start of a redelivered copy was counted before it began: that is not a crash more."""
    task = request.task
    header = (request.request_dict or {}).get(HEADER)
    is_ours = from_header(header, task_name=task.name, task_id=request.id) is not None
    if ending is undone.crashed and is_redelivered(request.delivery_info, is_ours and header):
        return
    call = undone.call_of(task, identity, request._context)  # noqa: SLF001  what Celery gives its own hooks
    if ending is undone.crashed:
        breaker.guard(lambda: undone.record(task, call, ending))
    else:
        undone.record_soon(breaker.guard, task, call, ending)


def _on_own_connection(work: Callable[[LedgerStore], None]) -> None:
    with get_store().side_connection() as store:
        work(store)


def _identity(task: Any, headers: Any, task_id: str, args: Any, kwargs: Any) -> Identity | None:
    """Which key a message names; None for one that names none, which no child can have claimed either."""
    header = (headers or {}).get(HEADER)
    identity: Identity | None = from_header(header, task_name=task.name, task_id=task_id)
    if identity is not None:
        return identity
    try:
        identity = task.idempotency_identity(args, kwargs, task_id=task_id)
    except Exception:  # noqa: BLE001  hostile arguments; a key function may raise anything
        return None
    return identity


def _free(store: LedgerStore, identity: Identity, owner: str) -> None:
    store.free_dead(identity.digest, owner_prefix=owner, republish=settings().republish_after)


def _failure_of(error: str) -> Callable[[LedgerStore, Identity, str], None]:
    def fail(store: LedgerStore, identity: Identity, owner: str) -> None:
        store.fail_dead(
            identity.digest,
            owner_prefix=owner,
            reason=Reason.RETRIES_USED_UP,
            category=Category.RETRYABLE,
            error=error,
            retention=settings().dead_letter_retention,
        )

    return fail
