"""What a call does with its key: reserve, claim, complete, retry, release, fail. Each is a few statements."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import ClassVar

from django.dispatch import Signal

from .. import signals
from ..conf import settings
from ..conf.options import Policy
from ..exceptions import KeyMismatch, KeyReused
from ..signals import announce
from ..states import Reason, State
from . import outage
from .misnamed import Misnamed, put_right
from .rules import COMPLETED, IN_PROGRESS, Step, Verdict, decide
from .stores import LedgerStore
from .values import (
    Abandoned,
    Answer,
    Answered,
    Call,
    Claim,
    Claimed,
    Entry,
    Failure,
    Grant,
    Outcome,
    OutOfDate,
    Refusal,
    Refused,
    Reserved,
    Waiting,
)

#: How often a claim reads the row again when another call was faster, before the call is rescheduled.
READS = 5
#: Seconds for which a reservation waits for a transaction that holds its key, and between two tries.
LONGEST_HOLD = 2.0
HOLD_PACE = 0.05

#: The owner's name while a sender takes over an abandoned key, to store its message.
SENDER = "sender"

_TRIES = frozenset({Step.INSERT, Step.RESERVED, Step.OPEN, Step.REOPEN, Step.OWN})


@dataclass(frozen=True, slots=True)
class Ledger:
    """The verbs on one store for one task's policy."""

    store: LedgerStore
    policy: Policy
    reads: ClassVar[int] = READS

    def claim(self, call: Call, *, owner: str, first: Step) -> Outcome:
        """Claim the key of ``call``, or return why the call does not get it.

        ``first`` is what to try before the row is read: INSERT for a first delivery, RESERVED where
        the sender has written the row, WAIT (nothing) where an INSERT would fail. Raises
        :class:`KeyReused` for another payload under the key, :class:`KeyMismatch` for the key of another
        task or scope, and :class:`Misnamed` for a call that has another key. May raise the database's
        errors; after one, call again with the same ``owner``, by which the ledger recognises a claim that
        it has granted without its answer arriving.
        """
        verdict, entry = Verdict(first), None
        if first is Step.WAIT:
            entry, verdict = self.look(call, owner)
        for _ in range(self.reads):
            grant = self._try(verdict, entry, call, owner)
            if grant is not None:
                return self._claimed(call, owner, grant, verdict)
            if verdict.step not in _TRIES:
                break
            entry, verdict = self.look(call, owner)
        else:
            return Waiting(1.0)
        return self.refusal(verdict, entry, call)

    def look(self, call: Call, owner: str) -> tuple[Entry | None, Verdict]:
        """The key's row and the verdict on ``call``; raises :class:`Misnamed`."""
        entry = self.store.read(call.identity.digest, task_id=call.task_id)
        if entry is None and call.named_here:
            known = put_right(self.store, call)
            if known.identity.digest != call.identity.digest:
                raise Misnamed(known)
        spared = 0.0 if entry is None else outage.spared(self.store, entry)
        if entry is not None and spared:
            entry = replace(entry, is_open=False, opens_in=spared)
        return entry, decide(entry, call, owner=owner, on_failed=self.policy.on_failed)

    def _try(self, verdict: Verdict, entry: Entry | None, call: Call, owner: str) -> Grant | None:
        lease = self.policy.lease
        if entry is None:
            blind = self.store.claim_new if verdict.step is Step.INSERT else self.store.claim_reserved
            return blind(call, owner=owner, lease=lease)
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
                return Refused(verdict.reason, entry.task_id, answer, entry.opens_in)
            case Step.REUSED | Step.MISMATCH:
                raise self._reused(call, entry, verdict)
            case Step.STALE:
                return OutOfDate()
            case _:
                return Answered(answer)

    def _reused(self, call: Call, entry: Entry, verdict: Verdict) -> KeyReused:
        if verdict.step is Step.MISMATCH:
            msg = (
                f"A message of {call.task} names a key of another task or scope, and was not run."
                " No sender of ours makes one: look at who can write to the broker."
            )
            return KeyMismatch(msg, task_id=call.task_id)
        msg = (
            f"Key {call.identity.key_text!r} of {call.task} was accepted with another payload"
            f" (call {entry.task_id}). Use a new key for new work."
        )
        return KeyReused(msg)

    def reserve(self, call: Call, *, wait: int, sends: int) -> Reserved | Refused | Abandoned:
        """Write the key's row for ``call`` in the open transaction; the sweeper sends it after ``wait``.

        Waits at most 2 s for another open transaction that holds the key, and then answers as if
        that transaction had committed. Raises :class:`KeyReused` for another payload under the key.
        """
        deadline = time.monotonic() + LONGEST_HOLD
        while True:
            token, entry = self.store.reserve_new(call, wait=wait, sends=sends), None
            if token is None:
                entry, verdict = self.look(call, owner="")
            if entry is not None and verdict.step is not Step.REOPEN:
                return self._unreserved(call, entry, verdict)
            if entry is not None:
                window = settings().redelivery_window
                token = self.store.reserve_finished(call, wait=wait, sends=sends, seen=entry, window=window)
            if token is not None:
                return Reserved(token)
            if time.monotonic() > deadline:
                return Refused(IN_PROGRESS, "", Answer(State.PENDING, Reason.NONE, None), None)
            time.sleep(HOLD_PACE)

    def _unreserved(self, call: Call, entry: Entry, verdict: Verdict) -> Refused | Abandoned:
        answer = Answer(entry.state, entry.reason, entry.result)
        is_same = call.task_id in {entry.task_id, entry.runner_task_id}
        match verdict.step:
            case Step.REUSED | Step.MISMATCH:
                raise self._reused(call, entry, verdict)
            case Step.OPEN if entry.no_message:
                return Abandoned()
            case Step.OPEN | Step.WAIT:
                holder = call.task_id if is_same else entry.task_id
                return Refused(IN_PROGRESS, holder, answer, entry.opens_in)
            case Step.REFUSE:
                return Refused(verdict.reason, entry.task_id, answer, entry.opens_in)
            case Step.ANSWER:
                past = self.store.answer(call.identity.digest, task_id=call.task_id)
                return Refused(COMPLETED, call.task_id, past or answer, None)
            case _:  # this very call has reserved the key before
                return Refused(COMPLETED, call.task_id, answer, entry.opens_in)

    def accept(self, call: Call, *, wait: int, republish: int, sends: int) -> Reserved | Refused:
        """Like :meth:`reserve`, but also takes over a key whose owner died without a stored message."""
        deadline = time.monotonic() + LONGEST_HOLD
        while True:
            outcome = self.reserve(call, wait=wait + republish, sends=sends)
            if not isinstance(outcome, Abandoned):
                return outcome
            token = self._take_over(call, wait=wait, republish=republish)
            if token is not None:
                return Reserved(token)
            if time.monotonic() > deadline:
                return Refused(IN_PROGRESS, "", Answer(State.PENDING, Reason.NONE, None), None)
            time.sleep(HOLD_PACE)

    def _take_over(self, call: Call, *, wait: int, republish: int) -> int | None:
        """Make an abandoned key a RETRY with this call's message; None when it is not abandoned any more."""
        with self.store.holding(call) as is_held:
            entry, verdict = self.look(call, owner="")
            if not is_held or entry is None or verdict.step is not Step.OPEN or not entry.no_message:
                return None
            grant = self.store.claim_open(call, owner=SENDER, lease=self.policy.lease, seen=entry)
            if grant is None:
                return None
            claim = Claim(call, SENDER, grant, self.policy.lease)
            self.store.retry(claim, message=None, wait=wait, reason=grant.reason, republish=republish)
            return grant.token

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
        return self.store.retry(
            claim,
            message=message,
            wait=wait,
            reason=reason,
            republish=settings().republish_after,
            failure=failure,
        )

    def release(self, claim: Claim) -> bool:
        """Give the key back, due now; the sweeper sends the call after one lease if no copy arrives."""
        return self.store.retry(
            claim, message=None, wait=0, reason=Reason.RELEASED, republish=self.policy.lease
        )

    def fail(
        self, claim: Claim, error: BaseException, *, failure: Failure, state: State, reason: Reason
    ) -> bool:
        """Settle as FAILED or REVIEW with the recorded error; False when the lease was lost."""
        retention = settings().dead_letter_retention
        done = self.store.fail(claim, state=state, reason=reason, failure=failure, retention=retention)
        if done:
            self._announce(signals.key_failed, claim.call.task, claim=claim, error=error, state=state)
            self._announce(
                signals.dead_lettered, claim.call.task, call=claim.call, state=state, failure=failure
            )
        return done

    def refuse(self, call: Call, *, place: str, reason: str, holder: str) -> None:
        """Record a refused duplicate, which people see and the sweeper adds up on the key."""
        self.store.record_duplicate(call, place=place, reason=reason)
        self._announce(signals.duplicate_detected, call.task, call=call, reason=reason, holder=holder)

    def _announce(self, signal: Signal, sender: str, **arguments: object) -> None:
        announce(signal, sender=sender, using=self.store.connection.alias, **arguments)
