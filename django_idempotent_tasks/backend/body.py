"""The Celery task behind a Django task: runs its function, and sends the framework's signals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar

from django.utils import timezone

from ..identity.rules import TASK_ID
from ..task.mixin import IdempotentTask
from .errors import raised
from .framework import (
    Task,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)
from .wishes import HEADER, asked

_NOTE = "django_task_result"

#: What an enqueue still has to announce, for a call that runs inside it (eager mode).
_enqueuing: ContextVar[Callable[[str], None] | None] = ContextVar("django_task_enqueuing", default=None)


@contextmanager
def enqueuing(announce: Callable[[str], None]) -> Iterator[None]:
    """Inside, a call that begins at once is announced before it begins; with its task id."""
    token = _enqueuing.set(announce)
    try:
        yield
    finally:
        _enqueuing.reset(token)


class BackendTask(IdempotentTask):
    """A Django task as Celery runs it. Each call is work of its own unless ``@idempotent`` states a key."""

    abstract = True
    key = TASK_ID
    reserve = True
    enforce = True
    django_task: ClassVar[Task[..., Any]]

    def perform(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run the function, a coroutine function too; its value as the framework's JSON."""
        announce = _enqueuing.get()
        if announce is not None:
            _enqueuing.set(None)
            announce(str(self.request.id))
        result = self._begin(args, kwargs)
        task = result.task
        context = [TaskContext(task_result=result)] if task.takes_context else []
        return normalize_json(task.call(*context, *args, **kwargs))

    def on_success(self, retval: Any, task_id: str, args: Any, kwargs: Any) -> None:
        """Announce the end of a task that succeeded."""
        self._finish(TaskResultStatus.SUCCESSFUL, value=retval)
        super().on_success(retval, task_id, args, kwargs)

    def on_failure(self, exc: Exception, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        """Announce the end of a task that failed for good."""
        self._finish(TaskResultStatus.FAILED, error=raised(exc))
        super().on_failure(exc, task_id, args, kwargs, einfo)

    def _begin(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult[..., Any]:
        request, now = self.request, timezone.now()
        header = vars(request).get(HEADER) or (request.headers or {}).get(HEADER)
        task = asked(self.django_task, header)
        result: TaskResult[..., Any] = TaskResult(
            task=task,
            id=str(request.id),
            status=TaskResultStatus.RUNNING,
            enqueued_at=None,
            started_at=now,
            last_attempted_at=now,
            finished_at=None,
            args=list(args),
            kwargs=dict(kwargs),
            backend=task.backend,
            errors=[],
            worker_ids=[request.hostname or "unknown"] * self.idempotency.attempt,
        )
        vars(request)[_NOTE] = result
        task_started.send(type(task.get_backend()), task_result=result)
        return result

    def _finish(self, status: TaskResultStatus, *, value: Any = None, error: TaskError | None = None) -> None:
        result = vars(self.request).get(_NOTE)
        if not isinstance(result, TaskResult):  # the body was not run
            return
        changed = {"status": status, "finished_at": timezone.now(), "_return_value": value}
        for name, each in changed.items():
            object.__setattr__(result, name, each)
        result.errors.extend([] if error is None else [error])
        task_finished.send(type(result.task.get_backend()), task_result=result)
