"""Records failures of plain Celery tasks as failed jobs, with the arguments that run the task again."""

from __future__ import annotations

import logging
from collections import deque
from socket import gethostname
from typing import Any

from billiard.exceptions import TimeLimitExceeded
from celery import signals
from celery.app.task import Context

from ..conf import settings
from ..conf.values import classes
from ..errors.raised import is_a
from ..ledger.failures import failure_of
from ..ledger.stores import get_store
from ..messages.message import Message
from ..running.categories import category_shown
from ..states import Reason, State

logger = logging.getLogger("django_idempotent_tasks")

_UID = "django_idempotent_tasks.worker.capture"

#: Task ids whose hard time limit Celery has reported once: it reports each twice.
_reported_once: deque[str] = deque(maxlen=64)


def connect() -> None:
    """Listen to the failures of all tasks; ``CAPTURE_ALL_FAILURES`` decides whether they are recorded."""
    signals.task_failure.connect(_failed, dispatch_uid=_UID)
    signals.task_retry.connect(_retried, dispatch_uid=_UID)


def _failed(
    sender: Any = None,
    task_id: str | None = None,
    exception: BaseException | None = None,
    args: Any = (),
    kwargs: Any = None,
    **_kwargs: object,
) -> None:
    request = getattr(sender, "request", None)
    if getattr(request, "id", None) is None:  # Celery reports for a dead child, in its parent
        if task_id is None or _was_reported(task_id, exception):
            return
        request = Context(id=task_id, args=args, kwargs=kwargs, hostname=gethostname())
    _capture(sender, request, exception, State.FAILED)


def _was_reported(task_id: str, error: BaseException | None) -> bool:
    if not isinstance(error, TimeLimitExceeded):
        return False
    if task_id in _reported_once:
        _reported_once.remove(task_id)  # a copy of the call may exceed its limit again
        return True
    _reported_once.append(task_id)
    return False


def _retried(sender: Any = None, request: Any = None, reason: Any = None, **_kwargs: object) -> None:
    _capture(sender, request, getattr(reason, "exc", None), State.RETRY)


def _capture(task: Any, request: Any, error: BaseException | None, state: State) -> None:
    """Record a failure. Never raises: a failure that cannot be recorded must not cause another."""
    try:
        if error is not None and _is_wanted(task):
            _record(task, request, error, state)
    except Exception:
        logger.exception("A failure of %s could not be captured", getattr(task, "name", task))


def _is_wanted(task: Any) -> bool:
    """Whether to record failures of this task; Celery reports some failures without a task."""
    return (
        settings().capture_all_failures
        and hasattr(task, "name")
        and not getattr(task, "idempotency_guarded", False)
    )


def _reason(task: Any, error: BaseException, state: State) -> Reason:
    if state is State.RETRY:
        return Reason.RETRY_ASKED
    return Reason.EXPECTED if is_a(error, *classes(getattr(task, "throws", ()))) else Reason.RETRIES_USED_UP


def _record(task: Any, request: Any, error: BaseException, state: State) -> None:
    category = category_shown(error, _reason(task, error, state))
    message = Message.of_request(task, request)
    with get_store().side_connection() as store:
        store.record_plain(
            task.name,
            request.id,
            attempt=min((request.retries or 0) + 1, 32767),
            state=state,
            failure=failure_of(error, task=task.name, category=category, worker=request.hostname),
            message=message.encode(limit=settings().max_payload),
        )
