"""Decides from a key's row who has the work now, after the ledger refused a worker's settlement."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..states import State
from .values import Claim, Entry


class Heir(Enum):
    """Who has the work, which decides what happens to the delivered message."""

    #: Nobody: the row is gone, or is older than the claim. The message goes back to its queue.
    NOBODY = "nobody"
    #: Another attempt has completed the same work: its result is this call's as well.
    DONE = "done"
    #: Another call runs it or has failed with it, or nothing is stored that could be sent: a copy of the
    #: message comes back later, and gets the outcome then.
    LATER = "later"
    #: The row has the message, which the sweeper sends, or the end of this very call: the delivered message
    #: is acknowledged.
    LEDGER = "ledger"


@dataclass(frozen=True, slots=True)
class Succession:
    """The heir, and for ``LATER`` the seconds until the copy comes back."""

    heir: Heir
    seconds: float = 1.0


def succeeded_by(entry: Entry | None, claim: Claim) -> Succession:
    """Who has the work of ``claim``, given the key's row as it was read after the refusal.

    A token only grows. A lower one shows that the ledger went back in time (a failover to a copy without
    the last commits, a restored backup): the owner that the row names may be dead by now.
    """
    if entry is None:
        return Succession(Heir.NOBODY)
    if entry.state is State.SUCCEEDED and entry.generation >= claim.grant.generation:
        return Succession(Heir.LEDGER if entry.was_answered else Heir.DONE)
    if entry.token < claim.token:
        return Succession(Heir.NOBODY)
    is_own = claim.call.task_id == (entry.runner_task_id or entry.task_id)
    has_ended = entry.state in {State.FAILED, State.REVIEW, State.CANCELLED}
    if entry.was_answered or (has_ended and is_own):
        return Succession(Heir.LEDGER)
    if entry.no_message or not is_own:
        return Succession(Heir.LATER, max(entry.opens_in or 0.0, 1.0))
    return Succession(Heir.LEDGER)
