"""Sends a call of a reserving task: reserves it, or answers with the call that holds the key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from celery.app.task import extract_exec_options  # type: ignore[attr-defined]  # not in the stubs
from celery.result import AsyncResult

from ..conf.options import Policy
from ..exceptions import KeyReused
from ..messages.header import Carried
from ..messages.stamping import Send, stamp
from .checked import check_options
from .reservation import Reservation, runs_here
from .submission import Submission


def reserves(task: Any, policy: Policy) -> bool:
    """Whether ``apply_async`` writes the call's row: with ``reserve=True``, or while SYNC_FALLBACK is on."""
    if policy.reserve:
        return True
    return not (task.app.conf.task_always_eager or policy.sensitive) and runs_here()


@dataclass(frozen=True, slots=True)
class Sending:
    """One call as it reached our ``apply_async``; ``send`` is the ``apply_async`` of the next class."""

    send: Send
    args: Any
    kwargs: Any
    task_id: str
    own: Carried
    options: Mapping[str, Any]


def accept(task: Any, policy: Policy, sending: Sending) -> AsyncResult[Any]:
    """``apply_async`` of a reserving task.

    In a canvas nothing is refused: others wait for this message, so it is sent, and the worker decides
    what it gets. Else raises :class:`KeyReused`, and :class:`DuplicateTask` with ``on_duplicate="raise"``
    or while the holder's id cannot be seen yet. The same task id again is no duplicate: it gets its result.
    """
    reservation = prepare(task, policy, sending)
    try:
        submission = reservation.submit()
    except KeyReused:
        if not reservation.is_in_canvas:
            raise
        return reservation.send_duplicate()
    if not submission.created and reservation.is_in_canvas:
        return reservation.send_duplicate()
    result = submission.result
    is_duplicate = not submission.created and not reservation.was_accepted(submission)
    if is_duplicate:
        reservation.record(submission)
    if result is None or (is_duplicate and policy.on_duplicate == "raise"):
        raise reservation.refuse(submission)
    parent = task.app.current_worker_task
    if parent is not None and sending.options.get("add_to_parent", True):
        parent.add_trail(result)
    return result


def submit(task: Any, policy: Policy, sending: Sending) -> Submission:
    """What ``submit()`` does: reserve the call; a duplicate is recorded and never sent."""
    reservation = prepare(task, policy, sending)
    submission = reservation.submit()
    if not submission.created and not reservation.was_accepted(submission):
        reservation.record(submission)
    return submission


def prepare(task: Any, policy: Policy, sending: Sending) -> Reservation:
    """The call, stamped and checked more closely than by Celery, since it may be sent much later.

    Raises :class:`ConfigurationError` naming the option.
    """
    # Twice: before the project's classes see the options, and after they may have changed them.
    check_options(task, {**extract_exec_options(task), **sending.options})
    message = stamp(task, sending.send, sending.args, sending.kwargs, sending.task_id, sending.options)
    check_options(task, message.options)
    return Reservation(task, policy, message, sending.own)
