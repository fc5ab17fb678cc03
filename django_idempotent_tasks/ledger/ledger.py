"""What a call does with its key: reserve, claim, complete, retry, release, fail. Each is a few statements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from django.dispatch import Signal

from .. import signals
from ..conf import settings
from ..signals import announce
from ..states import Category, Reason, State
from . import guesses
from .reserving import Reserving
from .reused import reused
from .rules import IN_PROGRESS, Step, Verdict
from .values import (
    Answer,
    Answered,
    Call,
    Claim,
    Claimed,
    Entry,
    Failure,
    Following,
    Grant,
    Outcome,
    OutOfDate,
    Refusal,
    Refused,
    Waiting,
)

#: How often a claim reads the row again when another call was faster, before the call is rescheduled.
READS = 5

_TRIES = frozenset({Step.INSERT, Step.RESERVED, Step.OPEN, Step.REOPEN, Step.OWN})


@dataclass(frozen=True, slots=True)
class Ledger(Reserving):
    """The verbs on one store for one task's policy."""

    reads: ClassVar[int] = READS

    def claim(self, call: Call, *, owner: str, first: Step, place: str = "") -> Outcome:
        """Claim the key of ``call``, or return why the call does not get it.

        ``first`` is what to try before the row is read: INSERT for a first delivery, RESERVED where
        the sender has written the row, WAIT (nothing) where an INSERT would fail. With a ``place`` a
        refusal may be recorded at once, in an open transaction that has nothing else in it. Raises
        :class:`KeyReused` for another payload under the key, :class:`KeyMismatch` for the key of another
        task or scope, :class:`Misnamed` for a call that has another key, and the database's errors: then
        call again with the same ``owner``, by which the ledger recognises a claim that it has granted.
        """
        verdict, entry = Verdict(first), None
        if first is Step.WAIT:
            entry, verdict = self.look(call, owner)
        for _ in range(self.reads):
            if entry is not None and self._is_cut_short(entry, verdict, call):
                refusal = self._after_a_cancel(entry, call)
                if refusal is not None:
                    return refusal
            grant = self._try(verdict, entry, call, owner)
            if grant is not None:
                self._learn(call, first, place, is_duplicate=False)
                return self._claimed(call, owner, grant, verdict)
            if verdict.step not in _TRIES:
                break
            entry, verdict = self.look(call, owner, place)
        else:
            return Waiting(1.0)
        outcome = self.refusal(verdict, entry, call)
        if isinstance(outcome, Refused):
            self._learn(call, first, place, is_duplicate=True)
        return outcome

    def _learn(self, call: Call, first: Step, place: str, *, is_duplicate: bool) -> None:
        """Expect something of the task's next call, unless this one's key was known before it was tried."""
        if place and first is Step.INSERT:
            guesses.learn(place, call.task, is_duplicate=is_duplicate)

    def _is_cut_short(self, entry: Entry, verdict: Verdict, call: Call) -> bool:
        """Whether the body of a cancelled run may still be running, which no other may run beside."""
        is_cancelled = verdict.step is Step.REOPEN and entry.state is State.CANCELLED
        return is_cancelled and self.policy.follows and call.message is not None

    def _after_a_cancel(self, entry: Entry, call: Call) -> Refusal | None:
        """What keeps a call from the key of a cancelled run; None where nothing does."""
        with self.store.holding(call) as is_held:
            if not is_held:  # perhaps by a sender whose call is the follow-up once that commits
                return Waiting(1.0)
            following = self.follow(call, wait=0, holder=entry.task_id)
            if following is not None or self.store.follow_up(call.identity.digest) is None:
                return following
        # One waits already, of which this is a duplicate, as it is of one behind a body that runs.
        return Refused(IN_PROGRESS, entry.task_id, Answer(State.RUNNING, Reason.NONE, None), None)

    def follow(self, call: Call, *, wait: int, holder: str) -> Following | None:
        """Run the call after ``holder``, which runs; None where it does not run (any more)."""
        if not self.store.follow(call, wait=wait):
            return None
        self._announce(signals.follow_up_accepted, call.task, call=call, holder=holder)
        return Following(holder)

    def _try(self, verdict: Verdict, entry: Entry | None, call: Call, owner: str) -> Grant | None:
        lease = self.policy.lease
        if entry is None:
            blind = self.store.claim_new if verdict.step is Step.INSERT else self.store.claim_reserved
            return blind(call, owner=owner, lease=lease, durable=self.policy.claims_durably)
        match verdict.step:
            case Step.OPEN:
                return self.store.claim_open(call, owner=owner, lease=lease, seen=entry)
            case Step.REOPEN:
                window = settings().redelivery_window
                return self.store.claim_finished(call, owner=owner, lease=lease, seen=entry, window=window)
            case Step.OWN:
                return Grant(entry.token, entry.generation, entry.attempts, entry.crashes, entry.reason)
            case _:
                return None

    def _claimed(self, call: Call, owner: str, grant: Grant, verdict: Verdict) -> Claimed:
        claim = Claim(call, owner, grant, self.policy.lease)
        took_over = verdict.step is Step.OPEN and grant.reason is Reason.OWNER_DIED
        self._announce(signals.key_taken_over if took_over else signals.key_claimed, call.task, claim=claim)
        return Claimed(claim, took_over)

    def refusal(self, verdict: Verdict, entry: Entry | None, call: Call) -> Refusal:
        """The answer to a call whose verdict grants no claim; raises :class:`KeyReused`."""
        if entry is None:  # every step that ends the loop was decided on a row
            return Waiting(1.0)
        answer = Answer(entry.state, entry.reason, entry.result)
        match verdict.step:
            case Step.WAIT:
                return Waiting(verdict.seconds)
            case Step.ANSWER:
                past = self.store.answer(call.identity.digest, task_id=call.task_id)
                return Answered(past) if past else Waiting(1.0)
            case Step.REFUSE:
                return Refused(verdict.reason, entry.task_id, answer, entry.opens_in, entry.is_noted)
            case Step.REUSED | Step.MISMATCH:
                raise reused(call, entry, verdict)
            case Step.STALE:
                return OutOfDate()
            case _:
                return Answered(answer)

    def complete(self, claim: Claim, *, result: str | None, reason: Reason) -> bool:
        """Settle as SUCCEEDED; False when the lease was lost."""
        done = self.store.complete(
            claim,
            result=result,
            reason=reason,
            retention=self.policy.retention,
            window=settings().redelivery_window,
        )
        if done:
            self._announce(signals.key_completed, claim.call.task, claim=claim)
        return done

    def retry(
        self,
        claim: Claim,
        *,
        message: str | None,
        wait: int,
        reason: Reason,
        failure: Failure | None = None,
    ) -> bool:
        """Settle as RETRY, due in ``wait`` seconds; publish after this. False when the lease was lost."""
        done = self.store.retry(
            claim,
            message=message,
            wait=wait,
            reason=reason,
            republish=settings().republish_after,
            failure=failure,
        )
        if done:
            self._announce(signals.key_retried, claim.call.task, claim=claim, reason=reason, failure=failure)
        return done

    def release(self, claim: Claim) -> bool:
        """Give the key back, due now; the sweeper sends the call after one lease if no copy arrives."""
        republish = self.policy.lease
        return self.store.retry(claim, message=None, wait=0, reason=Reason.RELEASED, republish=republish)

    def fail(
        self, claim: Claim, error: BaseException, *, failure: Failure, state: State, reason: Reason
    ) -> bool:
        """Settle as FAILED or REVIEW with the recorded error; False when the lease was lost.

        An expected end is no dead letter: nobody waits for it, and it is kept as long as a completed key.
        """
        is_expected = failure.category is Category.EXPECTED
        kept = max(self.policy.retention, settings().redelivery_window)
        retention = kept if is_expected else settings().dead_letter_retention
        done = self.store.fail(claim, state=state, reason=reason, failure=failure, retention=retention)
        if done:
            told = {"state": state, "failure": failure}
            self._announce(signals.key_failed, claim.call.task, claim=claim, error=error, **told)
            if not is_expected:
                self._announce(signals.dead_lettered, claim.call.task, call=claim.call, **told)
        return done

    def refuse(self, call: Call, *, place: str, reason: str, holder: str, is_noted: bool = False) -> None:
        """Record a refused duplicate, which people see and the sweeper adds up on the key."""
        if not is_noted:
            self.store.record_duplicate(call, place=place, reason=reason)
        self._announce(signals.duplicate_detected, call.task, call=call, reason=reason, holder=holder)

    def _announce(self, signal: Signal, sender: str, **arguments: object) -> None:
        announce(signal, sender=sender, using=self.store.connection.alias, **arguments)
