"""Decides whether the death of a worker's child is a crash, a stop or a time limit, and ends its claim."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from billiard.einfo import ExceptionWithTraceback  # type: ignore[attr-defined]  # not in its stubs
from billiard.exceptions import TimeLimitExceeded, WorkerLostError
from celery.utils.imports import symbol_by_name

from ..errors.stopping import is_stopping
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
from .bystanders import KilledForAnother, is_bystander, killed_for_another
from .calls import is_atomic, is_enforced, named_call, with_message
from .deaths import Crash, Ending, Killed, Stopped, Timeout

logger = logging.getLogger("django_idempotent_tasks")

#: Seconds until a chord's part is delivered again, to be reported again: on Redis a process that died while
#: it sent the chord's body counts for up to about 20 s as one that still sends it.
REPORT_AGAIN = 30.0


class DeathHook:
    """Mixed into Celery's ``Request``: runs in the worker's parent, before Celery puts the message back.

    Celery calls ``on_failure`` for a lost child once its death is certain. For a hard time limit Celery
    calls it while the child is still being killed: from then on the key's state refuses what the child
    settles. The hook asks the worker whether it is stopping: the exit status of a lost child is the same
    where that child alone was told to end.
    """

    def on_failure(self, exc_info: Any, *args: Any, **kwargs: Any) -> Any:
        """End the claim first, so that the copy that Celery sends back finds the key free."""
        error = _error_of(exc_info)
        if isinstance(error, WorkerLostError):
            failure = _failure(self, error)
            is_crash = not (is_stopping() or isinstance(error, KilledForAnother))
            _end_claim(self, Crash(failure) if is_crash else Stopped(failure))
        elif isinstance(error, TimeLimitExceeded):
            failure = _failure(self, error)
            _end_claim(self, Timeout(failure) if _acks_on_timeout(self.task) else Killed(failure))  # type: ignore[attr-defined]
        return super().on_failure(exc_info, *args, **kwargs)  # type: ignore[misc]


class ParentHook(DeathHook):
    """What a guarded task needs besides; the messages of one in shadow mode are Celery's alone."""

    def on_failure(self, exc_info: Any, *args: Any, **kwargs: Any) -> Any:
        """As above; a call that Celery would drop, since its child was killed for another one, runs again."""
        if is_bystander(self, _error_of(exc_info)):
            exc_info = killed_for_another()
        return super().on_failure(exc_info, *args, **kwargs)

    def revoked(self) -> Any:
        """Whether Celery drops the message as revoked; it keeps a message that was redriven since."""
        revocations.forget_for(self.id, self.request_dict, task=self.task.name)  # type: ignore[attr-defined]
        return super().revoked()  # type: ignore[misc]

    def _success_was_stored(self) -> Any:
        """Whether Celery drops the message of a lost child that had stored a success; copies a chord's part.

        The child may have died before it counted the part or sent the chord's body. When the copy is
        delivered, the guarded part is reported again and not run.
        """
        stored = super()._success_was_stored()  # type: ignore[misc]  # of Celery 5.7
        return stored if stored and _is_reported_again(self) else False


def install(app: Any) -> None:
    """Give each task of the app that claims keys a ``Request`` with a hook, composed with the task's own."""
    for task in app.tasks.values():
        hook = _hook_of(task)
        if hook is not None and task.idempotency_error is None:
            request = symbol_by_name(task.Request)
            if not issubclass(request, hook):
                type(task).Request = type(request.__name__, (hook, request), {})


def _hook_of(task: Any) -> type[DeathHook] | None:
    if getattr(task, "idempotency_guarded", False):
        return ParentHook
    return DeathHook if getattr(task, "idempotency_observed", False) else None


def _error_of(exc_info: Any) -> BaseException:
    error: BaseException = exc_info.exception
    return error.exc if isinstance(error, ExceptionWithTraceback) else error


def _is_reported_again(request: Any) -> bool:
    """Send a copy of a chord's part; False where that failed, so that the message itself goes back."""
    task, context = request.task, request._context  # noqa: SLF001  as below
    if context.chord is None or not (task.acks_late and task.reject_on_worker_lost):
        return True
    message = Message.of_request(task, context)
    try:
        # With the headers that were delivered: this process runs no request that could add its own.
        late = replace(message, options={**message.options, "countdown": REPORT_AGAIN}, stamped=True)
        relay.post(task.app, late)
    except Exception as error:  # noqa: BLE001  the worker must go on whatever this raises
        logger.warning(
            "%s: its message goes back to the queue, since no copy could be sent (%r)", task.name, error
        )
        return False
    return True


def _acks_on_timeout(task: Any) -> bool:
    """Whether a hard time limit ends the message; before Celery 5.7 one option says so for failures too."""
    return bool(getattr(task, "acks_on_timeout", task.acks_on_failure_or_timeout))


def _failure(request: Any, error: BaseException) -> Failure:
    return failure_of(
        error, task=request.task.name, category=Category.RETRYABLE, worker=getattr(request, "hostname", None)
    )


def _end_claim(request: Any, ending: Ending) -> None:
    """End the claim that a child has made for this request, if one has accepted it."""
    pid = request.worker_pid
    if pid is None:  # never accepted by a child: nothing was claimed
        return

    task, context = request.task, request._context  # noqa: SLF001  what Celery gives its own hooks
    call = named_call(task, request.request_dict, request.id, request.args, request.kwargs)
    if call is None:
        return

    owner = f"{instance()}:{pid}:"
    if is_atomic(task):
        ending.end_rolled_back(request, with_message(task, call, context), owner)
        return

    def end(store: LedgerStore) -> None:
        # The ledger knows who owns the key: no header makes this child the owner of another key.
        right = put_right(store, call)
        ending.end(store, right, owner)
        is_last = isinstance(ending, Timeout) and is_enforced(task)
        if is_last and store.read(right.identity.digest, task_id=call.task_id) is None:
            # The ledger has lost the row, and Celery acknowledges the message: nothing else has the work.
            ending.end_rolled_back(request, with_message(task, right, context), owner)

    breaker.guard(lambda: on_own_connection(end))
