"""Why a call of a key was not run: the answer in words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from django.utils.translation import gettext as _

from ..encoding import decode_error
from ..management.text import since, span
from ..models import IdempotencyKey
from ..states import State
from .wording import shown


def why_not_run(row: IdempotencyKey, now: datetime) -> str:
    """What another call of this key meets now, and whom."""
    facts = {
        "call": shown(row.task_id),
        "holder": shown(row.owner),
        "runner": shown(row.runner_task_id or row.task_id),
        "attempt": row.attempts,
        "made": since(row.created_at, now),
        "since": since(row.started_at, now),
        "ended": since(row.finished_at, now),
        "lease": lease(row, now),
        "error": shown(decode_error(row.result)),
    }
    return _WORDS[State(row.state)](row, now) % facts


def lease(row: IdempotencyKey, now: datetime) -> str:
    """What is left of the holder's lease."""
    if row.open_at is None:
        return "-"
    left = (row.open_at - now).total_seconds()
    return (
        _("%(span)s left") % {"span": span(left)}
        if left > 0
        else _("over for %(span)s") % {"span": span(-left)}
    )


def _pending(_row: IdempotencyKey, _now: datetime) -> str:
    return _(
        "Call %(call)s was accepted for this key %(made)s ago and has not begun; other calls are refused."
    )


def _running(row: IdempotencyKey, now: datetime) -> str:
    if row.open_at is not None and row.open_at <= now:
        return _(
            "%(holder)s held this key for call %(runner)s (attempt %(attempt)s, begun %(since)s ago) and has"
            " fallen silent: its lease is %(lease)s."
        )
    return _(
        "%(holder)s holds this key and runs call %(runner)s: attempt %(attempt)s, begun %(since)s ago, lease"
        " %(lease)s. Other calls are refused until it ends."
    )


def _retry(_row: IdempotencyKey, _now: datetime) -> str:
    return _("Call %(call)s has this key and waits for its next attempt, after %(attempt)s so far.")


def _review(_row: IdempotencyKey, _now: datetime) -> str:
    return _(
        "Call %(call)s ended in doubt %(ended)s ago, and only a person can say whether its effects happened:"
        " %(error)s"
    )


def _failed(row: IdempotencyKey, _now: datetime) -> str:
    if row.discarded_at is not None:
        return _("Call %(call)s failed %(ended)s ago and was discarded: nothing refuses a new call.")
    return _("Call %(call)s failed for good %(ended)s ago: %(error)s")


def _cancelled(_row: IdempotencyKey, _now: datetime) -> str:
    return _("Call %(call)s was cancelled; copies of it are not run.")


def _succeeded(row: IdempotencyKey, now: datetime) -> str:
    if row.open_at is not None and row.open_at > now:
        return _("Call %(call)s did the work %(ended)s ago; other calls are answered with its result.")
    return _(
        "Call %(call)s did the work %(ended)s ago; its retention is over, so nothing refuses a new call."
    )


_WORDS: dict[State, Callable[[IdempotencyKey, datetime], str]] = {
    State.PENDING: _pending,
    State.RUNNING: _running,
    State.RETRY: _retry,
    State.REVIEW: _review,
    State.FAILED: _failed,
    State.CANCELLED: _cancelled,
    State.SUCCEEDED: _succeeded,
}
