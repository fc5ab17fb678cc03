"""The ledger's verbs for atomic runs: claimed and completed in one transaction, recorded after a rollback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from django.db.transaction import TransactionManagementError
from django.dispatch import Signal

from .. import signals
from ..conf import settings
from ..states import Reason, State
from .encoding import storable
from .ledger import Ledger
from .owner import new_owner
from .rules import Step, Verdict
from .values import Call, Claim, Claimed, Entry, Grant

#: A signal to send after the commit, with its sender and its arguments.
Unsent = tuple[Signal, str, dict[str, object]]

#: As ``seen`` of a record: compare no token, decide on the row as it is now.
ANY_TOKEN = -1


def token_of(entry: Entry | None) -> int:
    """The token of a row as it was read; 0 for a reservation, and where there is no row."""
    return 0 if entry is None else entry.token


class Recorded(Enum):
    """Whether the end of an attempt was recorded."""

    DONE = "done"
    HELD = "held"  # another transaction holds the key
    MOVED = "moved"  # the key was claimed or settled since


@dataclass(frozen=True, slots=True)
class AtomicLedger(Ledger):
    """The verbs of an atomic task; claims are made in the open transaction and are visible with its commit.

    ``counted`` is the row's token after a crash was counted for this start, before the run began.
    """

    counted: int | None = None
    #: Signals to send after the commit of a side connection, on which Django runs no hooks; else None.
    unsent: list[Unsent] | None = None
    #: A claim that fails a second time has met a transaction that holds the key: the call comes back later.
    reads: ClassVar[int] = 2

    def complete_inside(
        self, claim: Claim, value: Any, reason: Reason, *, secrets: Sequence[str] = ()
    ) -> None:
        """Store the body's result as the last statement before the commit; no statement without a result.

        The claim has already stored DONE without a result, unless it followed a death.
        """
        keep, limit = self.policy.store_result, settings().max_result
        text, reason = storable(value, reason, keep=keep, limit=limit, secrets=secrets)
        is_news = text is not None or reason is not claim.grant.reason
        if (is_news or self.store.confirms) and not self.store.atomic_result(
            claim, result=text, reason=reason
        ):
            msg = f"The transaction of {claim.call.task} was rolled back inside its body, its claim with it."
            raise TransactionManagementError(msg)

    def record(
        self,
        call: Call,
        *,
        owner: str,
        seen: int,
        settle: Callable[[Claim], bool],
        committed: bool = False,
    ) -> Recorded:
        """Write the end of an attempt that left no claim: a leased claim and its end, in one transaction.

        ``seen`` is the row's token before that attempt, 0 where there was no row. A row that has another
        token by now stays as it is, above all a success, unless the body ``committed`` that success
        itself, before its end. Never waits for another transaction.
        """
        with self.store.holding(call) as alone:
            if not alone:
                return Recorded.HELD
            entry, verdict = self.look(call, owner)
            if committed and entry is not None and entry.owner == owner:
                grant = self._taken_back(entry, call, owner)
            elif seen not in {ANY_TOKEN, token_of(entry)}:
                return Recorded.MOVED
            else:
                grant = self._claim_leased(verdict, entry, call, owner)
            if grant is None:
                return Recorded.MOVED
            settle(Claim(call, owner, grant, self.policy.lease))
            return Recorded.DONE

    def count_start(self, call: Call, entry: Entry | None) -> int | None:
        """Count a crash before the run begins, and return the row's token; at its end the run takes it back.

        Nothing else would tell of an atomic run whose whole worker dies. None when the key has moved on
        or another transaction holds it.
        """
        owner = new_owner()
        token: int | None = None

        def die(claim: Claim) -> bool:
            nonlocal token
            token = claim.token + 1
            # The delivery before a redelivery has left nothing, unless the row tells of its death already.
            unseen = int(entry is None or entry.reason is not Reason.OWNER_DIED)
            republish = settings().republish_after
            freed = self.store.free_dead(claim.digest, owner_prefix=owner, republish=republish, unseen=unseen)
            if entry is not None and entry.state is State.RETRY and not unseen:
                self.store.record_death(claim.digest, seen=entry)
            return freed

        self.record(call, owner=owner, seen=token_of(entry), settle=die)
        return token

    def look(self, call: Call, owner: str, place: str = "") -> tuple[Entry | None, Verdict]:
        entry, verdict = super(AtomicLedger, self).look(call, owner, place)
        if entry is not None and entry.token == self.counted:
            verdict = Verdict(Step.OPEN)  # the wait after the counted crash is not for this start
        return entry, verdict

    def _claimed(self, call: Call, owner: str, grant: Grant, verdict: Verdict) -> Claimed:
        """Both signals are sent with the commit, before a hook of the body that may fail there."""
        claimed = super(AtomicLedger, self)._claimed(call, owner, grant, verdict)
        self._announce(signals.key_completed, call.task, claim=claimed.claim)
        return claimed

    def _announce(self, signal: Signal, sender: str, **arguments: object) -> None:
        if self.unsent is None:
            super(AtomicLedger, self)._announce(signal, sender, **arguments)
        else:
            self.unsent.append((signal, sender, arguments))

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

    def _taken_back(self, entry: Entry, call: Call, owner: str) -> Grant | None:
        grant = Grant(entry.token, entry.generation, entry.attempts, entry.crashes, entry.reason)
        return grant if self.store.take_back(Claim(call, owner, grant, self.policy.lease)) else None
