"""What sending a reserving task does: the call is accepted here, or answered with the one that was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery.result import AsyncResult

from .exceptions import InvalidKey, KeyReused
from .fallback import runs_here
from .header import task_id_problem
from .options import Policy
from .reservation import Reservation
from .submission import Submission


def reserves(task: Any, policy: Policy) -> bool:
    """Whether ``apply_async`` writes the call's row: the task says so, or the caller is to run it."""
    if policy.reserve:
        return True
    return not (task.app.conf.task_always_eager or policy.sensitive) and runs_here()


def accept(
    task: Any, policy: Policy, args: Any, kwargs: Any, task_id: str, options: Mapping[str, Any]
) -> AsyncResult[Any]:
    """``apply_async`` of a reserving task.

    In a canvas nothing is refused: others wait for this message, so it is sent, and what it gets
    is decided where it arrives. Else raises :class:`KeyReused`, and :class:`DuplicateTask` where
    the task says so or nobody is known yet who has the key.
    """
    reservation = prepare(task, policy, args, kwargs, task_id, options)
    try:
        submission = reservation.submit()
    except KeyReused:
        if not reservation.is_in_canvas:
            raise
        return reservation.send_duplicate()
    if not submission.created and reservation.is_in_canvas:
        return reservation.send_duplicate()
    if not submission.created:
        reservation.record(submission)
    result = submission.result
    if result is None or (not submission.created and policy.on_duplicate == "raise"):
        raise reservation.refuse(submission)
    parent = task.app.current_worker_task
    if parent is not None and options.get("add_to_parent", True):
        parent.add_trail(result)
    return result


def submit(
    task: Any, policy: Policy, args: Any, kwargs: Any, task_id: str, options: Mapping[str, Any]
) -> Submission:
    """``submit``: what became of the call; a refused one is recorded and never sent."""
    reservation = prepare(task, policy, args, kwargs, task_id, options)
    submission = reservation.submit()
    if not submission.created:
        reservation.record(submission)
    return submission


def prepare(
    task: Any, policy: Policy, args: Any, kwargs: Any, task_id: str, options: Mapping[str, Any]
) -> Reservation:
    """The call, checked as Celery checks it when it sends."""
    problem = task_id_problem(task_id)
    if problem is not None:
        msg = f"A task id of {task.name} {problem}."
        raise InvalidKey(msg)
    if task.soft_time_limit and task.time_limit and task.soft_time_limit > task.time_limit:
        msg = "soft_time_limit must be less than or equal to time_limit"
        raise ValueError(msg)
    if task.typing:
        task.__header__(*(args or ()), **(kwargs or {}))
    args, kwargs = task.idempotency_dumped(args, kwargs)
    kept = {name: value for name, value in options.items() if name != "add_to_parent"}
    return Reservation(task, policy, args, kwargs, task_id, kept)
