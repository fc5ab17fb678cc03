"""Says in words what a key does now and what happens to it next, for every door.

Sentences are translated when a door asks for them. Texts that a task wrote are made harmless here.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from django.utils.translation import gettext as _

from ..conf.options import Policy
from ..identity.text import harmless
from ..ledger.encoding import decode_error
from ..ledger.moments import exact
from ..messages.message import Message
from ..models import IdempotencyKey
from ..states import Reason, State
from .pauses import why_it_waits
from .tasks import known_task
from .text import since, span
from .workers import holder


def why_not_run(row: IdempotencyKey, now: datetime, *, error: str | None = None) -> str:
    """What another call of this key meets now. ``error``: how much of the recorded error may be shown."""
    facts = {
        "call": harmless(row.task_id),
        "holder": holder(row, now).who if row.state == State.RUNNING else "",
        "runner": harmless(row.runner_task_id or row.task_id),
        "attempt": row.attempts,
        "made": since(row.created_at, now),
        "since": since(row.started_at, now),
        "ended": since(row.finished_at, now),
        "lease": lease(row, now),
        "error": harmless(decode_error(row.result) if error is None else error),
    }
    return _WORDS[State(row.state)].now(row, now) % facts


def what_next(row: IdempotencyKey, now: datetime, *, commands: bool = False) -> str:
    """Who moves the key on from its state, and when, in one to three sentences.

    ``commands``: for a terminal, where a person decides by a command; a page has buttons.
    """
    facts = {
        "due": _in(row.due_at, now),
        "open": _in(row.open_at, now),
        "decide": "",
        "redrive": _("A redrive"),
    }
    if commands:
        show, redrive = (f"'idem dead-letters {verb} {row.digest}" for verb in ("show", "redrive"))
        facts["decide"] = _("%(command)s tells what you can decide.") % {"command": f"{show}'"}
        facts["redrive"] = f"{redrive} --reason TEXT --yes'"
    waits = why_it_waits(row, now)
    return waits or " ".join(filter(None, (each % facts for each in _WORDS[State(row.state)].next(row, now))))


def lease(row: IdempotencyKey, now: datetime) -> str:
    """What is left of the holder's lease."""
    if row.open_at is None:
        return "-"
    left = (row.open_at - now).total_seconds()
    words = _("%(span)s left") if left > 0 else _("over for %(span)s")
    return words % {"span": span(abs(left))}


def eta_of(row: IdempotencyKey) -> datetime | None:
    """The moment before which a reserved call must not run; None without a readable one."""
    try:
        eta = Message.decode(row.task, row.message or "").options.get("eta")
        moment = datetime.fromisoformat(eta) if isinstance(eta, str) else eta
    except ValueError:
        return None
    if not isinstance(moment, datetime):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def waits_for_its_eta(row: IdempotencyKey, moment: datetime) -> bool:
    """Whether the call was not to run before ``moment``."""
    eta = eta_of(row)
    return eta is not None and eta > exact(moment)


def _in(moment: datetime | None, now: datetime) -> str:
    left = 0.0 if moment is None else (moment - now).total_seconds()
    return _("in %(span)s") % {"span": span(left)} if left >= 1 else _("now")


def _is_ahead(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and moment > now


def _pending_now(_row: IdempotencyKey, _now: datetime) -> str:
    return _(
        "Call %(call)s was accepted for this key %(made)s ago and has not begun; other calls are refused."
    )


def _pending_next(row: IdempotencyKey, now: datetime) -> list[str]:
    if waits_for_its_eta(row, now):
        return [_("The call waits for its ETA; the sweeper looks at it %(due)s.")]
    if row.sends < 0:
        return [_("The broker does not have the call's message; the sweeper sends it %(due)s.")]
    return [
        _(
            "A worker claims the key when its message arrives; if none does, the sweeper sends the message"
            " again %(due)s."
        )
    ]


def _running_now(row: IdempotencyKey, now: datetime) -> str:
    if row.open_at is not None and row.open_at <= now:
        return _(
            "This key is held by %(holder)s, which ran call %(runner)s (attempt %(attempt)s, begun %(since)s"
            " ago) and has fallen silent: its lease is %(lease)s."
        )
    if _is_followed(row):
        return _(
            "This key is held by %(holder)s, which runs call %(runner)s: attempt %(attempt)s, begun %(since)s"
            " ago, lease %(lease)s. Of the calls that come before it ends, a worker runs one after it."
        )
    return _(
        "This key is held by %(holder)s, which runs call %(runner)s: attempt %(attempt)s, begun %(since)s"
        " ago, lease %(lease)s. Other calls are refused until it ends."
    )


def _is_followed(row: IdempotencyKey) -> bool:
    policy: Policy | None = getattr(known_task(row.task), "idempotency_policy", None)
    return policy is not None and policy.follows


def _running_next(row: IdempotencyKey, now: datetime) -> list[str]:
    if _is_ahead(row.open_at, now):
        words = _(
            "Its holder renews the lease until the call ends; should it fall silent, the key is free"
            " %(open)s."
        )
    elif row.in_external:
        words = _("The lease ended inside external(): the sweeper moves the key to REVIEW at its next look.")
    elif row.message is None:
        words = _(
            "The lease is over, and no message is stored that the sweeper could send again: the next copy or"
            " call that arrives takes the key over."
        )
    else:
        words = _("The lease is over: the sweeper frees the key and sends its call again at its next look.")
    return [words]


def _retry_now(_row: IdempotencyKey, _now: datetime) -> str:
    return _("Call %(call)s has this key and waits for its next attempt, after %(attempt)s so far.")


def _retry_next(row: IdempotencyKey, _now: datetime) -> list[str]:
    if row.message is None:
        words = _("A worker may claim the key %(open)s, when a copy of its message arrives; none is stored.")
    else:
        words = _("A worker may claim the key %(open)s; the sweeper sends its message %(due)s.")
    return [words]


def _review_now(_row: IdempotencyKey, _now: datetime) -> str:
    return _(
        "Call %(call)s ended in doubt %(ended)s ago, and only you can find out whether its effects happened:"
        " %(error)s"
    )


def _review_next(_row: IdempotencyKey, _now: datetime) -> list[str]:
    waits = _("The key waits for your decision and is never deleted; calls of the key are refused.")
    return [waits, "%(decide)s"]


def _failed_now(row: IdempotencyKey, _now: datetime) -> str:
    if row.discarded_at is not None:
        return _("Call %(call)s failed %(ended)s ago and was discarded: a new call is not refused.")
    if row.reason == Reason.EXPECTED:
        return _("Call %(call)s ended %(ended)s ago with an error that its task expects: %(error)s")
    return _("Call %(call)s failed for good %(ended)s ago: %(error)s")


def _failed_next(row: IdempotencyKey, _now: datetime) -> list[str]:
    if row.discarded_at is not None:
        first = _("The dead letter was discarded: a new call may claim the key.")
    elif row.reason == Reason.RETRIES_USED_UP:
        first = _("A new call runs the key again, unless the task has on_failed='block'.")
    elif row.reason == Reason.EXPECTED:
        first = _("Nobody has to decide. Calls of the key are refused; use a new key for new work.")
    else:
        first = _("Calls of the key are refused; use a new key for new work.")
    return [first, _("%(redrive)s runs this call again."), _deleted()]


def _cancelled_now(_row: IdempotencyKey, _now: datetime) -> str:
    return _("Call %(call)s was cancelled; copies of it are not run.")


def _cancelled_next(_row: IdempotencyKey, _now: datetime) -> list[str]:
    return [_("The cancelled call is not run; a new call may claim the key."), _deleted()]


def _succeeded_now(row: IdempotencyKey, now: datetime) -> str:
    if _is_ahead(row.open_at, now):
        return _("Call %(call)s did the work %(ended)s ago; other calls are answered with its result.")
    return _("Call %(call)s did the work %(ended)s ago; its retention is over, so a new call is not refused.")


def _succeeded_next(row: IdempotencyKey, now: datetime) -> list[str]:
    if _is_ahead(row.open_at, now):
        first = _("Its result answers other calls; a new call runs the key again %(open)s.")
    else:
        first = _("Its retention is over: a new call runs the key again.")
    return [first, _deleted()]


def _deleted() -> str:
    return _("The sweeper deletes the row %(due)s.")


class _Words(NamedTuple):
    now: Callable[[IdempotencyKey, datetime], str]
    next: Callable[[IdempotencyKey, datetime], list[str]]


_WORDS = {
    State.PENDING: _Words(_pending_now, _pending_next),
    State.RUNNING: _Words(_running_now, _running_next),
    State.RETRY: _Words(_retry_now, _retry_next),
    State.REVIEW: _Words(_review_now, _review_next),
    State.FAILED: _Words(_failed_now, _failed_next),
    State.CANCELLED: _Words(_cancelled_now, _cancelled_next),
    State.SUCCEEDED: _Words(_succeeded_now, _succeeded_next),
}
