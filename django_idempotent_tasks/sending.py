"""What sending a reserving task does: the call is accepted here, or answered with the one that was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any

from celery.app.task import extract_exec_options  # type: ignore[attr-defined]  # not in the stubs
from celery.result import AsyncResult
from kombu import compression
from kombu.serialization import registry as serializers  # type: ignore[attr-defined]  # not in the stubs

from .durations import LONGEST
from .exceptions import ConfigurationError, KeyReused
from .fallback import runs_here
from .message import HEADER
from .options import Policy
from .reservation import Reservation
from .stamping import Send, stamp
from .submission import Submission


def reserves(task: Any, policy: Policy) -> bool:
    """Whether ``apply_async`` writes the call's row: the task says so, or the caller is to run it."""
    if policy.reserve:
        return True
    return not (task.app.conf.task_always_eager or policy.sensitive) and runs_here()


@dataclass(frozen=True, slots=True)
class Sending:
    """One call as it reached the guard, and ``send``: the ``apply_async`` behind it."""

    send: Send
    args: Any
    kwargs: Any
    task_id: str
    options: Mapping[str, Any]


def accept(task: Any, policy: Policy, sending: Sending) -> AsyncResult[Any]:
    """``apply_async`` of a reserving task.

    In a canvas nothing is refused: others wait for this message, so it is sent, and what it gets
    is decided where it arrives. Else raises :class:`KeyReused`, and :class:`DuplicateTask` where
    the task says so or nobody is known yet who has the key. The same task id again is no duplicate:
    it gets its result.
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
    """``submit``: what became of the call; a duplicate is recorded and never sent."""
    reservation = prepare(task, policy, sending)
    submission = reservation.submit()
    if not submission.created and not reservation.was_accepted(submission):
        reservation.record(submission)
    return submission


def prepare(task: Any, policy: Policy, sending: Sending) -> Reservation:
    """The call, stamped, and checked more closely than Celery does: it may be sent much later.

    Raises :class:`ConfigurationError` naming the option.
    """
    # Before the project's classes see it, and what they made of it.
    _check(task, {**extract_exec_options(task), **sending.options})
    message = stamp(task, sending.send, sending.args, sending.kwargs, sending.task_id, sending.options)
    _check(task, message.options)
    return Reservation(task, policy, message, sending.options["headers"][HEADER])


def _check(task: Any, options: Mapping[str, Any]) -> None:
    for name, problem_of in _CHECKS.items():
        value = options.get(name)
        problem = None if value is None else problem_of(value)
        if problem is not None:
            msg = f"{task.name}: option {name!r} {problem}, not {value!r}."
            raise ConfigurationError(msg)


def _serializer_problem(name: Any) -> str | None:
    known = serializers.name_to_type
    return None if name in known else f"must be one of {', '.join(sorted(known))}"


def _compression_problem(name: Any) -> str | None:
    try:
        compression.get_encoder(name)
    except (KeyError, TypeError):
        return f"must be one of {', '.join(sorted(compression.encoders()))} or an alias"
    return None


def _priority_problem(value: Any) -> str | None:
    return None if isinstance(value, int) and not isinstance(value, bool) else "must be a whole number"


def _seconds_problem(value: Any) -> str | None:
    if isinstance(value, int | float) and isfinite(value) and abs(value) <= LONGEST:
        return None
    return f"must be seconds, at most {LONGEST} (31 years)"


def _moment_problem(value: Any) -> str | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        moment = None
    if not isinstance(moment, datetime):
        return "must be a datetime or its ISO text"
    if moment.replace(tzinfo=UTC) - datetime.now(UTC) > timedelta(seconds=LONGEST):
        return "must be within 31 years"
    return None


def _expires_problem(value: Any) -> str | None:
    if isinstance(value, datetime | str):
        return _moment_problem(value)
    problem = _seconds_problem(value)
    return problem and f"{problem}, a datetime or its ISO text"


#: What would otherwise fail where nobody sees it: after the commit, or in the sweeper, each time anew.
_CHECKS: dict[str, Callable[[Any], str | None]] = {
    "serializer": _serializer_problem,
    "compression": _compression_problem,
    "priority": _priority_problem,
    "countdown": _seconds_problem,
    "eta": _moment_problem,
    "expires": _expires_problem,
}
