"""Sends a call of a reserving task: reserves it, or answers with the call that holds the key."""

from __future__ import annotations

from typing import Any

from celery.result import AsyncResult

from ..conf import settings
from ..conf.options import Policy
from ..exceptions import KeyReused
from .alike import prepared
from .here import runs_here
from .prepared import Sending
from .submission import Submission


def reserves(task: Any, policy: Policy) -> bool:
    """Whether ``apply_async`` writes the call's row: with ``reserve=True``, or while SYNC_FALLBACK is on."""
    if policy.reserve:
        return True
    if policy.sensitive or settings().sync_fallback is False:  # asked first: Celery's settings cost far more
        return False
    return not task.app.conf.task_always_eager and runs_here()


def accept(task: Any, policy: Policy, sending: Sending) -> AsyncResult[Any]:
    """``apply_async`` of a reserving task.

    In a canvas nothing is refused: others wait for this message, so it is sent, and the worker decides
    what it gets. Else raises :class:`KeyReused`, and :class:`DuplicateTask` with ``on_duplicate="raise"``
    or while the holder's id cannot be seen yet. The same task id again is no duplicate: it gets its result.
    """
    reservation = prepared(task, policy, sending)
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
    reservation = prepared(task, policy, sending)
    submission = reservation.submit()
    if not submission.created and not reservation.was_accepted(submission):
        reservation.record(submission)
    return submission
