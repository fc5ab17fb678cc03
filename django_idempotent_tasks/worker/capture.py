"""Failures of tasks that are not ours, with the arguments that would run them again."""

from __future__ import annotations

import logging
from collections import deque
from socket import gethostname
from typing import Any

from billiard.exceptions import TimeLimitExceeded
from celery import signals
from celery.app.task import Context

from ..conf import settings
from ..ledger.failures import failure_of
from ..ledger.stores import get_store
from ..messages.message import Message
from ..running.categories import category_shown
from ..states import Reason, State

logger = logging.getLogger("django_idempotent_tasks")

_UID = "django_idempotent_tasks.worker.capture"

#: The calls whose hard time limit was reported once: Celery reports it twice.
_told: deque[str] = deque(maxlen=64)


def connect() -> None:
    """Listen to every task's failures; they are kept where ``CAPTURE_ALL_FAILURES`` says so."""
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
    if getattr(request, "id", None) is None:  # in the worker's parent, for a child that is dead
        if task_id is None or _was_told(task_id, exception):
            return
        request = Context(id=task_id, args=args, kwargs=kwargs, hostname=gethostname())
    _capture(sender, request, exception, State.FAILED)


def _was_told(task_id: str, error: BaseException | None) -> bool:
    if not isinstance(error, TimeLimitExceeded):
        return False
    if task_id in _told:
        _told.remove(task_id)  # a copy of the call may run into it again
        return True
    _told.append(task_id)
    return False


def _retried(sender: Any = None, request: Any = None, reason: Any = None, **_kwargs: object) -> None:
    _capture(sender, request, getattr(reason, "exc", None), State.RETRY)


def _capture(task: Any, request: Any, error: BaseException | None, state: State) -> None:
    """Never raises: a failure that cannot be recorded must not become another one."""
    try:
        if error is not None and _is_wanted(task):
            _record(task, request, error, state)
    except Exception:
        logger.exception("A failure of %s could not be captured", getattr(task, "name", task))


def _is_wanted(task: Any) -> bool:
    """Celery reports some failures without a task."""
    return (
        settings().capture_all_failures
        and hasattr(task, "name")
        and not getattr(task, "idempotency_guarded", False)
    )


def _record(task: Any, request: Any, error: BaseException, state: State) -> None:
    reason = Reason.RETRY_ASKED if state is State.RETRY else Reason.RETRIES_USED_UP
    category = category_shown(error, reason)
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
