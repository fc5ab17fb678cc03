"""The ledger's verbs for atomic runs: claimed and completed in one transaction, recorded after a rollback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from .conf import settings
from .ledger import Ledger
from .outcomes import Call, Claim, Entry, Grant
from .owner import new_owner
from .results import storable
from .states import Reason
from .verdict import Step, Verdict

#: ``seen`` of a record that does not compare: whatever the row says now is decided upon.
ANY_TOKEN = -1


def token_of(entry: Entry | None) -> int:
    """The token of a row as read; a reservation's, and no row's, is 0."""
    return 0 if entry is None else entry.token


class Recorded(Enum):
    """What became of a record."""

    DONE = "done"
    HELD = "held"  # another transaction has the key
    MOVED = "moved"  # the key has moved on


@dataclass(frozen=True, slots=True)
class AtomicLedger(Ledger):
    """The verbs of an atomic task; claims are made in the open transaction and are visible with its commit.

    ``counted`` is the token under which this start was counted as a crash before it began.
    """

    counted: int | None = None
    #: Who is refused a second time has met a transaction that has the key, and comes back later.
    reads: ClassVar[int] = 2

    def complete_inside(self, claim: Claim, value: Any, reason: Reason) -> None:
        """Store what the body came to, as the last statement before the commit; none where there is nothing.

        The claim said DONE without a result, unless it followed a death.
        """
        text, reason = storable(value, reason, keep=self.policy.store_result, limit=settings().max_result)
        if text is not None or reason is not claim.grant.reason:
            self.store.atomic_result(claim, result=text, reason=reason)
        self._announce("key_completed", claim.call.task, claim=claim)

    def record(self, call: Call, *, owner: str, seen: int, settle: Callable[[Claim], bool]) -> Recorded:
        """Write how an attempt ended that left nothing: a leased claim and its settlement in one transaction.

        ``seen`` is the token of the row before that attempt, 0 where there was none: a row that has
        moved on, to a success above all, stays as it is. Never waits for another transaction.
        """
        with self.store.holding(call) as alone:
            if not alone:
                return Recorded.HELD
            entry, verdict = self.look(call, owner)
            if seen not in {ANY_TOKEN, token_of(entry)}:
                return Recorded.MOVED
            grant = self._claim_leased(verdict, entry, call, owner)
            if grant is None:
                return Recorded.MOVED
            settle(Claim(call, owner, grant, self.policy.lease))
            return Recorded.DONE

    def count_start(self, call: Call, entry: Entry | None) -> int | None:
        """Count a start as a crash before it begins, to be taken back where it ends; the row's token then.

        An atomic run whose whole worker dies leaves nothing else. None when the key has moved on or
        another transaction has it.
        """
        owner = new_owner()
        token: int | None = None

        def die(claim: Claim) -> bool:
            nonlocal token
            token = claim.token + 1
            republish = settings().republish_after
            return self.store.free_dead(claim.digest, owner_prefix=owner, republish=republish)

        self.record(call, owner=owner, seen=token_of(entry), settle=die)
        return token

    def look(self, call: Call, owner: str) -> tuple[Entry | None, Verdict]:
        entry, verdict = super(AtomicLedger, self).look(call, owner)
        if entry is not None and entry.token == self.counted:
            verdict = Verdict(Step.OPEN)  # whatever wait follows its crash: that is not this start's
        return entry, verdict

    def _try(self, verdict: Verdict, entry: Entry | None, call: Call, owner: str) -> Grant | None:
        times = {"retention": self.policy.retention, "window": settings().redelivery_window}
        if entry is None:
            blind = self.store.atomic_new if verdict.step is Step.INSERT else self.store.atomic_reserved
            return blind(call, owner=owner, **times)
        if verdict.step is Step.OPEN:
            counted = entry.token == self.counted
            return self.store.atomic_open(call, owner=owner, **times, seen=entry, counted=counted)
        if verdict.step is Step.REOPEN:
            return self.store.atomic_finished(call, owner=owner, **times, seen=entry)
        return None

    def _claim_leased(self, verdict: Verdict, entry: Entry | None, call: Call, owner: str) -> Grant | None:
        if entry is not None and entry.token == self.counted:
            lease = self.policy.lease
            return self.store.claim_open(call, owner=owner, lease=lease, seen=entry, counted=True)
        return super(AtomicLedger, self)._try(verdict, entry, call, owner)
