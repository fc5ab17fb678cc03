"""Reads the result of an enqueued task from the ledger, without a result backend of Celery."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..exceptions import ResultNotStored
from ..ledger import rows
from ..ledger.encoding import decode_result
from ..ledger.moments import exact
from ..messages.header import task_id_problem
from ..messages.message import Message
from ..models import AnsweredCall, FailedJob, IdempotencyKey
from ..operations.tasks import known_task
from ..states import Reason, State
from .declared import declared
from .errors import CANCELLED, recorded
from .framework import Task, TaskError, TaskResult, TaskResultDoesNotExist, TaskResultStatus
from .wishes import HEADER, asked

#: A call that waits for a person has failed; a redrive makes it ready again.
STATUS = {
    State.PENDING: TaskResultStatus.READY,
    State.RETRY: TaskResultStatus.READY,
    State.RUNNING: TaskResultStatus.RUNNING,
    State.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
    State.FAILED: TaskResultStatus.FAILED,
    State.REVIEW: TaskResultStatus.FAILED,
    State.CANCELLED: TaskResultStatus.FAILED,
}

#: Failed attempts that a result lists.
ERRORS_SHOWN = 100

#: The worker of an attempt of which the ledger has no record.
_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class _Found:
    """A call as the ledger has it: its own row, or its end beside the row of a later call."""

    key: IdempotencyKey
    end: AnsweredCall | None

    @property
    def state(self) -> State:
        return State(self.key.state if self.end is None else self.end.state)

    @property
    def value(self) -> Any:
        """What the task returned; None where the ledger did not keep that."""
        reason, text = (self.key.reason, self.key.result) if self.end is None else _outcome(self.end)
        try:
            return None if reason == Reason.REPLACED else decode_result(text)
        except ResultNotStored:
            return None


def _outcome(end: AnsweredCall) -> tuple[int, str | None]:
    return end.reason, end.result


def result_of(result_id: str, *, backend: str, task: Task[..., Any] | None = None) -> TaskResult[..., Any]:
    """The result of a call. ``task``: as it was enqueued, else it is what the ledger still knows.

    Raises TaskResultDoesNotExist for an unknown id, for one that was pruned, and for a call of a task that
    no Django task is.
    """
    found = _find(result_id)
    known = None if found is None else _task(found.key.task)
    if found is None or known is None:
        raise TaskResultDoesNotExist(result_id)
    message = _message(found)
    if task is None:
        task = asked(known, (message.options.get("headers") or {}).get(HEADER) if message else None)
    jobs = _jobs(result_id, found)
    result: TaskResult[..., Any] = TaskResult(
        task=task,
        id=result_id,
        status=STATUS[found.state],
        args=list(message.args) if message else [],
        kwargs=dict(message.kwargs) if message else {},
        backend=backend,
        errors=_errors(jobs, found.state),
        worker_ids=_workers(jobs, found),
        **_moments(found),
    )
    if found.state is State.SUCCEEDED:
        object.__setattr__(result, "_return_value", found.value)
    return result


def _task(name: str) -> Task[..., Any] | None:
    """The Django task of a name. Nothing is imported by that name, but the modules of tasks are."""
    return declared(name) or getattr(known_task(name), "django_task", None)


def _find(result_id: str) -> _Found | None:
    if task_id_problem(result_id) is not None:
        return None
    key = rows.of_call(result_id) or rows.of_follow_up(result_id)
    if key is not None:
        return _Found(key, None)
    end = rows.ended(result_id)
    key = None if end is None else rows.of_key(end.digest)
    return None if key is None else _Found(key, end)


def _message(found: _Found) -> Message | None:
    """The call's message; None once it has succeeded, when the ledger forgets what it was called with."""
    if found.end is not None or found.key.message is None or found.key._state.adding:  # noqa: SLF001
        return None
    try:
        return Message.decode(found.key.task, found.key.message)
    except ValueError:
        return None


def _jobs(result_id: str, found: _Found) -> list[FailedJob]:
    """The failed attempts of the call, in their order."""
    alias = found.key._state.db  # noqa: SLF001  where the row was read
    jobs = FailedJob.objects.using(alias).filter(task_id=result_id, digest=found.key.digest)
    return list(jobs.defer("message").order_by("id")[:ERRORS_SHOWN])


def _errors(jobs: list[FailedJob], state: State) -> list[TaskError]:
    found = [recorded(job.error, job.traceback) for job in jobs]
    return [*found, CANCELLED] if state is State.CANCELLED else found


def _workers(jobs: list[FailedJob], found: _Found) -> list[str]:
    """One entry for each attempt. The ledger knows the workers of those that failed."""
    attempts = len(jobs) if found.end is not None else max(found.key.attempts, len(jobs))
    return [*(job.worker for job in jobs), *[_UNKNOWN] * (attempts - len(jobs))]


def _moments(found: _Found) -> dict[str, datetime | None]:
    """The ledger knows when the last attempt began, not when the first one did."""
    if found.end is not None:
        return dict.fromkeys(("enqueued_at", "started_at", "last_attempted_at", "finished_at"))
    key = found.key
    return {
        "enqueued_at": exact(key.created_at),
        "started_at": _exact(key.started_at),
        "last_attempted_at": _exact(key.started_at),
        "finished_at": _exact(key.finished_at),
    }


def _exact(moment: datetime | None) -> datetime | None:
    return None if moment is None else exact(moment)
