"""What happens to a key next, in words: every state but those of a person's is moved on by somebody."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from ..models import IdempotencyKey
from ..states import Reason, State
from .pending import waits_for_its_eta
from .text import span


def what_next(row: IdempotencyKey, now: datetime) -> str:
    """One or two sentences."""
    return _WORDS[State(row.state)](row, now)


def _in(moment: datetime | None, now: datetime) -> str:
    left = 0.0 if moment is None else (moment - now).total_seconds()
    return f"in {span(left)}" if left >= 1 else "now"


def _pending(row: IdempotencyKey, now: datetime) -> str:
    when = _in(row.due_at, now)
    if waits_for_its_eta(row, now):
        return f"It waits for its ETA; the sweeper looks at it {when}."
    if row.sends < 0:
        return f"The broker does not have its message; the sweeper sends it {when}."
    return (
        "A worker claims it when its message arrives; if none does, the sweeper sends the message again"
        f" {when}."
    )


def _running(row: IdempotencyKey, now: datetime) -> str:
    alive = row.open_at is not None and row.open_at > now
    if alive:
        return (
            "Its holder renews the lease until it ends; should it fall silent, the key is free"
            f" {_in(row.open_at, now)}."
        )
    if row.in_external:
        return "Its lease is over inside external(): the sweeper moves it to REVIEW at its next look."
    if row.message is None:
        return (
            "Its lease is over and no message is stored to send again: the next copy or call that arrives"
            " takes it over."
        )
    return "Its lease is over: the sweeper frees it and sends it again at its next look."


def _retry(row: IdempotencyKey, now: datetime) -> str:
    claimable = _in(row.open_at, now)
    if row.message is None:
        return f"It may be claimed {claimable}, when a copy of its message arrives; none is stored to send."
    return f"It may be claimed {claimable}; the sweeper sends its message {_in(row.due_at, now)}."


def _review(_row: IdempotencyKey, _now: datetime) -> str:
    return "It waits for a person and is never deleted; calls of the key are refused."


def _failed(row: IdempotencyKey, now: datetime) -> str:
    gone = f"the row is deleted {_in(row.due_at, now)}"
    if row.reason == Reason.RETRIES_USED_UP:
        return f"A new call runs the key again, unless the task says on_failed='block'; {gone}."
    return f"Calls of the key are refused; use a new key for new work; {gone}."


def _cancelled(row: IdempotencyKey, now: datetime) -> str:
    gone = f"the row is deleted {_in(row.due_at, now)}"
    return f"The cancelled call is not run; a new call may claim the key; {gone}."


def _succeeded(row: IdempotencyKey, now: datetime) -> str:
    gone = f"the row is deleted {_in(row.due_at, now)}"
    if row.open_at is not None and row.open_at > now:
        return (
            f"Its result answers other calls; a new call runs the key again {_in(row.open_at, now)}; {gone}."
        )
    return f"Its retention is over: a new call runs the key again; {gone}."


_WORDS: dict[State, Callable[[IdempotencyKey, datetime], str]] = {
    State.PENDING: _pending,
    State.RUNNING: _running,
    State.RETRY: _retry,
    State.REVIEW: _review,
    State.FAILED: _failed,
    State.CANCELLED: _cancelled,
    State.SUCCEEDED: _succeeded,
}
