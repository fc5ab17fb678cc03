"""What a worker's parent process does for a child that can no longer speak: it ends the child's claim."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from billiard.common import human_status
from billiard.einfo import ExceptionWithTraceback  # type: ignore[attr-defined]  # not in its stubs
from billiard.exceptions import TimeLimitExceeded, WorkerLostError
from celery.utils.imports import symbol_by_name

from . import doubted, revocations, signals, undone
from .announce import announce
from .conf import settings
from .delivery import is_redelivered
from .failure import failure_of
from .header import from_header
from .message import HEADER, Message
from .outcomes import Call, Failure, Identity
from .owner import instance
from .relay import relay
from .states import Category, Reason, State
from .stores import LedgerStore, get_store

logger = logging.getLogger("django_idempotent_tasks")

#: After a write that failed, dead children are left to their leases and the sweeper for so many seconds.
PAUSE = 30.0
#: Seconds until a part of a chord is reported again: on Redis a process that died while it sent the body is
#: taken for one that still does for up to about 20 s.
REPORT_AGAIN = 30.0
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
            _for_dead_child(self, _Crash(_failure(self, error), was_told=_was_told_to_stop(error)))
        elif isinstance(error, TimeLimitExceeded) and _acks_on_timeout(self.task):  # type: ignore[attr-defined]
            _for_dead_child(self, _Timeout(_failure(self, error)))
        return super().on_failure(exc_info, *args, **kwargs)  # type: ignore[misc]

    def revoked(self) -> Any:
        """Whether the message is dropped as revoked: one that was redriven since is not."""
        revocations.forget_for(self.id, self.request_dict)  # type: ignore[attr-defined]
        return super().revoked()  # type: ignore[misc]

    def _success_was_stored(self) -> Any:
        """Celery drops the message of a lost child that had stored a success: a copy follows a chord's part.

        The child may have died before the part was counted, or the chord's body sent. Delivered
        again, a guarded part is reported again and not run.
        """
        stored = super()._success_was_stored()  # type: ignore[misc]  # of Celery 5.7
        return stored if stored and _is_reported_again(self) else False


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
        elif terminated or not revocations.is_beyond(store, identity.digest, request):
            store.cancel(identity.digest, window=window, task_id=request.id)

    breaker.guard(lambda: _on_own_connection(work))


def cancel_waiting(task_ids: Iterable[str]) -> None:
    """Cancel revoked calls that wait in the ledger: a worker's own memory of them ends with it."""

    def work(store: LedgerStore) -> None:
        for task_id in task_ids:
            store.cancel_waiting(task_id, window=settings().redelivery_window)
            revocations.heard(store, task_id)

    breaker.guard(lambda: _on_own_connection(work))


def fail_unknown(name: str, task_id: str, headers: Any) -> None:
    """A message for a task that no worker knows: after ``UNKNOWN_LIMIT`` sendings its key is FAILED."""
    identity = from_header((headers or {}).get(HEADER), task_name=name, task_id=task_id)
    if identity is None:
        return
    error = LookupError(f"No worker knows a task {name!r}; deploy it, then redrive this.")
    failure = failure_of(error, task=name, category=Category.FATAL)

    def work(store: LedgerStore) -> None:
        retention = settings().dead_letter_retention
        again = UNKNOWN_LIMIT - 1  # the first sending is not counted
        if store.fail_unknown(
            identity.digest, task_id=task_id, sends=again, failure=failure, retention=retention
        ):
            _announce(Call(identity, name, task_id, None), State.FAILED, failure)

    breaker.guard(lambda: _on_own_connection(work))


def _is_reported_again(request: Any) -> bool:
    """Send the copy of a part; False where it could not be sent, so that the message itself goes back."""
    task, context = request.task, request._context  # noqa: SLF001  as below
    if context.chord is None or not (task.acks_late and task.reject_on_worker_lost):
        return True
    message = Message.of_request(task, context)
    try:
        relay.post(task.app, replace(message, options={**message.options, "countdown": REPORT_AGAIN}))
    except Exception as error:  # noqa: BLE001  the worker must go on whatever this raises
        logger.warning("%s: its message goes back, a copy was not sent (%r)", task.name, error)
        return False
    return True


def _acks_on_timeout(task: Any) -> bool:
    """Whether a hard time limit ends the message; before Celery 5.7 one option says so for failures too."""
    return bool(getattr(task, "acks_on_timeout", task.acks_on_failure_or_timeout))


def _was_told_to_stop(error: WorkerLostError) -> bool:
    """Whether the child ended by the signal that stops a worker's processes: its body was unwound."""
    return any(f" {status} " in str(error) for status in _TOLD_TO_STOP)


def _is_atomic(task: Any) -> bool:
    return bool(task.idempotency_policy.mode == "atomic")


def _failure(request: Any, error: BaseException) -> Failure:
    return failure_of(
        error, task=request.task.name, category=Category.RETRYABLE, worker=getattr(request, "hostname", None)
    )


@dataclass(frozen=True, slots=True)
class _Crash:
    """The child is dead: another attempt follows."""

    failure: Failure
    was_told: bool

    def end(self, store: LedgerStore, call: Call, owner: str) -> None:
        if store.free_dead(
            call.identity.digest,
            owner_prefix=owner,
            republish=settings().republish_after,
            failure=self.failure,
        ):
            doubted.tell(store, call.identity.digest, worker=self.failure.worker)

    def end_undone(self, request: Any, call: Call) -> None:
        """The start of a redelivered copy was counted before it began: that is not a crash more."""
        header = (request.request_dict or {}).get(HEADER)
        is_ours = from_header(header, task_name=call.task, task_id=request.id) is not None
        if not self.was_told and not is_redelivered(request.delivery_info, is_ours and header):
            breaker.guard(lambda: undone.record(request.task, call, undone.crashed(self.failure)))


@dataclass(frozen=True, slots=True)
class _Timeout:
    """The child is being killed for its hard time limit, and its message acknowledged."""

    failure: Failure

    def end(self, store: LedgerStore, call: Call, owner: str) -> None:
        digest = call.identity.digest
        if store.fail_dead(
            digest,
            owner_prefix=owner,
            reason=Reason.RETRIES_USED_UP,
            failure=self.failure,
            retention=settings().dead_letter_retention,
        ):
            entry = store.read(digest, task_id=call.task_id)
            _announce(call, State.FAILED if entry is None else entry.state, self.failure)

    def end_undone(self, request: Any, call: Call) -> None:
        undone.record_soon(
            breaker.guard,
            request.task,
            call,
            undone.failed(self.failure),
            told=lambda: _announce(call, State.FAILED, self.failure),
        )


def _announce(call: Call, state: State, failure: Failure) -> None:
    announce(signals.dead_lettered, sender=call.task, using=None, call=call, state=state, failure=failure)


def _for_dead_child(request: Any, ending: _Crash | _Timeout) -> None:
    pid = request.worker_pid
    if pid is None:  # never accepted by a child: nothing was claimed
        return

    task, context = request.task, request._context  # noqa: SLF001  what Celery gives its own hooks
    identity = _identity(task, request.request_dict, request.id, request.args, request.kwargs)
    if identity is None:
        return

    if _is_atomic(task):
        ending.end_undone(request, undone.call_of(task, identity, context))
        return

    call = Call(identity, task.name, request.id, None)

    def work(store: LedgerStore) -> None:
        ending.end(store, call, f"{instance()}:{pid}:")
        if isinstance(ending, _Timeout) and store.read(identity.digest, task_id=request.id) is None:
            # The ledger has lost its row, and the message is acknowledged: nobody else has it.
            ending.end_undone(request, undone.call_of(task, identity, context))

    breaker.guard(lambda: _on_own_connection(work))


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
