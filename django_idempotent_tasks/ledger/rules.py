"""Decides what a call gets that meets a key's row: a table without I/O, of which each cell has a test."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..identity.names import is_same
from ..states import LIVE, Reason, State
from .values import Call, Entry


class Step(Enum):
    """What to do next about a call."""

    INSERT = "insert"
    RESERVED = "reserved"
    OPEN = "open"
    REOPEN = "reopen"
    OWN = "own"
    WAIT = "wait"
    REFUSE = "refuse"
    REPLAY = "replay"
    RECALL = "recall"
    ANSWER = "answer"
    CANCELLED = "cancelled"
    STALE = "stale"
    REUSED = "reused"
    MISMATCH = "mismatch"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A step, with the reason of a refusal or the seconds of a wait."""

    step: Step
    reason: str = ""
    seconds: float = 0.0


IN_PROGRESS = "in_progress"
COMPLETED = "already_completed"
FAILED = "failed"
IN_REVIEW = "in_review"
#: Why a message is refused whose header names the key of another task or scope.
MISMATCH = "mismatch"

#: Where a call was noted that a task in shadow mode runs: nothing has refused it.
SHADOW = "shadow"
#: Why the guard would keep such a call from its body, beside the reasons above: another payload has the key,
#: this very call has ended or is cancelled, a later copy of it waits, it has no key, the ledger is away.
KEY_REUSED, REDELIVERED, CANCELLED, OUT_OF_DATE = "key_reused", "redelivered", "cancelled", "out_of_date"
INVALID_KEY, STORE_DOWN = "invalid_key", "store_down"
SHADOWED = (KEY_REUSED, REDELIVERED, CANCELLED, OUT_OF_DATE, INVALID_KEY, STORE_DOWN)

_REFUSALS = {
    State.PENDING: IN_PROGRESS,
    State.RUNNING: IN_PROGRESS,
    State.RETRY: IN_PROGRESS,
    State.SUCCEEDED: COMPLETED,
    State.FAILED: FAILED,
    State.REVIEW: IN_REVIEW,
}


def decide(entry: Entry | None, call: Call, *, owner: str, on_failed: str) -> Verdict:
    """The next step for ``call`` given the row as read. ``owner`` is this claim's own name."""
    if entry is None:
        return Verdict(Step.INSERT)
    if is_foreign(entry, call):
        return Verdict(Step.MISMATCH)
    if entry.was_answered:
        return Verdict(Step.ANSWER)
    if entry.state is State.RUNNING and entry.owner == owner:
        return Verdict(Step.OWN)
    if call.task_id in {entry.task_id, entry.runner_task_id}:
        return Verdict(Step.STALE) if _is_out_of_date(entry, call) else _same_call(entry)
    return _other_call(entry, call, on_failed=on_failed)


def is_foreign(entry: Entry, call: Call) -> bool:
    """Whether the key's row is of another task or scope: a message's header may claim any digest.

    The digest cannot be computed again from the arguments: a key that the caller stated is not among them,
    and ``key_text`` is only its form for people.
    """
    return not is_same(entry.task, call.task) or entry.scope != call.identity.scope


def _is_out_of_date(entry: Entry, call: Call) -> bool:
    """Whether the row stores the message of a later turn of this very call: of a retry, or of a redrive.

    A call that took the key over has stored a message of its own, whose turns are counted anew.
    """
    is_live = entry.state in LIVE and call.task_id == (entry.runner_task_id or entry.task_id)
    return is_live and call.turn is not None and entry.turn is not None and call.turn < entry.turn


def _same_call(entry: Entry) -> Verdict:
    match entry.state:
        case State.PENDING:
            return Verdict(Step.OPEN)
        case State.RUNNING | State.RETRY if entry.is_open:
            return Verdict(Step.OPEN)
        case State.RUNNING | State.RETRY:
            return Verdict(Step.WAIT, seconds=_wait(entry))
        case State.SUCCEEDED:
            return Verdict(Step.REPLAY)
        case State.CANCELLED:
            return Verdict(Step.CANCELLED)
        case _:
            return Verdict(Step.RECALL)


def _wait(entry: Entry) -> float:
    """Seconds until the key is due; a key that ended inside ``external()`` waits for the sweeper."""
    return max(entry.opens_in or 0.0, 1.0 if entry.in_external else 0.0)


def _other_call(entry: Entry, call: Call, *, on_failed: str) -> Verdict:
    if _may_reopen(entry, on_failed=on_failed):
        return Verdict(Step.REOPEN)
    if _differs(entry, call):
        return Verdict(Step.REUSED)
    if entry.state is State.RUNNING and entry.is_open:
        return Verdict(Step.OPEN)
    if entry.state is State.RETRY and entry.is_open and entry.no_message:
        return Verdict(Step.OPEN)  # the sweeper has nothing to send: nobody else moves it on
    return Verdict(Step.REFUSE, reason=_REFUSALS[entry.state])


def _may_reopen(entry: Entry, *, on_failed: str) -> bool:
    match entry.state:
        case State.CANCELLED:
            return True
        case State.SUCCEEDED:
            return bool(entry.is_open)
        case State.FAILED:
            return entry.is_discarded or (on_failed == "rerun" and entry.reason is Reason.RETRIES_USED_UP)
        case _:
            return False


def _differs(entry: Entry, call: Call) -> bool:
    """Another payload under the same key; not compared where either side has no fingerprint."""
    given, stored = call.identity.fingerprint, entry.fingerprint
    return given is not None and stored is not None and given != stored
