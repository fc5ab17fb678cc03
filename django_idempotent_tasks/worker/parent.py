"""What a worker's parent process does for a child that can no longer speak: it ends the child's claim."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from billiard.einfo import ExceptionWithTraceback  # type: ignore[attr-defined]  # not in its stubs
from billiard.exceptions import TimeLimitExceeded, WorkerLostError
from celery.utils.imports import symbol_by_name

from ..errors.stopping import is_stopping
from ..ledger import undone
from ..ledger.failures import failure_of
from ..ledger.misnamed import put_right
from ..ledger.owner import instance
from ..ledger.stores import LedgerStore
from ..ledger.values import Failure
from ..messages.message import Message
from ..messages.relay import relay
from ..states import Category
from . import revocations
from .breaker import breaker, on_own_connection
from .calls import is_atomic, named_call
from .deaths import Crash, Ending, Killed, Stopped, Timeout

logger = logging.getLogger("django_idempotent_tasks")

#: Seconds until a part of a chord is reported again: on Redis a process that died while it sent the body is
#: taken for one that still does for up to about 20 s.
REPORT_AGAIN = 30.0


class ParentHook:
    """Mixed into Celery's ``Request``: runs in the parent, before Celery puts the message back.

    ``on_failure`` is called for a lost child after its death is certain, and for a hard time limit
    while the child is still being killed: there its settlement is refused from now on, by state.
    Whether a lost child was told to end with its worker is asked of the worker, never read from the
    child's exit status, which is the same for a child that alone was told to end.
    """

    def on_failure(self, exc_info: Any, *args: Any, **kwargs: Any) -> Any:
        """End the claim first, so that the copy that Celery sends back finds the key free."""
        error = exc_info.exception
        if isinstance(error, ExceptionWithTraceback):
            error = error.exc
        if isinstance(error, WorkerLostError):
            failure = _failure(self, error)
            _for_dead_child(self, Stopped(failure) if is_stopping() else Crash(failure))
        elif isinstance(error, TimeLimitExceeded):
            failure = _failure(self, error)
            _for_dead_child(self, Timeout(failure) if _acks_on_timeout(self.task) else Killed(failure))  # type: ignore[attr-defined]
        return super().on_failure(exc_info, *args, **kwargs)  # type: ignore[misc]

    def revoked(self) -> Any:
        """Whether the message is dropped as revoked: one that was redriven since is not."""
        revocations.forget_for(self.id, self.request_dict, task=self.task.name)  # type: ignore[attr-defined]
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


def _is_reported_again(request: Any) -> bool:
    """Send the copy of a part; False where it could not be sent, so that the message itself goes back."""
    task, context = request.task, request._context  # noqa: SLF001  as below
    if context.chord is None or not (task.acks_late and task.reject_on_worker_lost):
        return True
    message = Message.of_request(task, context)
    try:
        # With the headers that were delivered: this process is in no request of anybody's.
        late = replace(message, options={**message.options, "countdown": REPORT_AGAIN}, stamped=True)
        relay.post(task.app, late)
    except Exception as error:  # noqa: BLE001  the worker must go on whatever this raises
        logger.warning("%s: its message goes back, a copy was not sent (%r)", task.name, error)
        return False
    return True


def _acks_on_timeout(task: Any) -> bool:
    """Whether a hard time limit ends the message; before Celery 5.7 one option says so for failures too."""
    return bool(getattr(task, "acks_on_timeout", task.acks_on_failure_or_timeout))


def _failure(request: Any, error: BaseException) -> Failure:
    return failure_of(
        error, task=request.task.name, category=Category.RETRYABLE, worker=getattr(request, "hostname", None)
    )


def _for_dead_child(request: Any, ending: Ending) -> None:
    pid = request.worker_pid
    if pid is None:  # never accepted by a child: nothing was claimed
        return

    task, context = request.task, request._context  # noqa: SLF001  what Celery gives its own hooks
    call = named_call(task, request.request_dict, request.id, request.args, request.kwargs)
    if call is None:
        return

    owner = f"{instance()}:{pid}:"
    if is_atomic(task):
        ending.end_undone(request, undone.stored(task, call, context), owner)
        return

    def end(store: LedgerStore) -> None:
        # The owner is who was granted the key: no header makes this child the owner of another one.
        right = put_right(store, call)
        ending.end(store, right, owner)
        if isinstance(ending, Timeout) and store.read(right.identity.digest, task_id=call.task_id) is None:
            # The ledger has lost its row, and the message is acknowledged: nobody else has it.
            ending.end_undone(request, undone.stored(task, right, context), owner)

    breaker.guard(lambda: on_own_connection(end))
