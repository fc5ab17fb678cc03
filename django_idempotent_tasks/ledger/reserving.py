"""What a sender does with a key: reserves it, or finds out which call has it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from ..conf import settings
from ..conf.options import Policy
from ..states import Reason, State
from . import guesses, outage
from .misnamed import Misnamed, put_right
from .reused import reused
from .rules import COMPLETED, IN_PROGRESS, Step, Verdict, decide
from .stores import LedgerStore
from .values import Abandoned, Answer, Call, Claim, Entry, Refused, Reserved

#: Seconds for which a reservation waits for a transaction that holds its key, and between two tries.
LONGEST_HOLD = 2.0
HOLD_PACE = 0.05

#: The owner's name while a sender takes over an abandoned key, to store its message.
SENDER = "sender"


@dataclass(frozen=True, slots=True)
class Reserving:
    """The verbs of senders, and how a key's row is read."""

    store: LedgerStore
    policy: Policy

    def look(self, call: Call, owner: str, place: str = "") -> tuple[Entry | None, Verdict]:
        """The key's row and the verdict on ``call``; raises :class:`Misnamed`."""
        store, digest = self.store, call.identity.digest
        entry = store.read_noting(call, place=place) if place else store.read(digest, task_id=call.task_id)
        if entry is None and call.named_here:
            known = put_right(self.store, call)
            if known.identity.digest != call.identity.digest:
                raise Misnamed(known)
        return self.judge(entry, call, owner)

    def judge(self, entry: Entry | None, call: Call, owner: str) -> tuple[Entry | None, Verdict]:
        """The row that was read, as it is after an outage, and what it means for ``call``."""
        spared = 0.0 if entry is None else outage.spared(self.store, entry)
        if entry is not None and spared:
            entry = replace(entry, is_open=False, opens_in=spared)
        return entry, decide(entry, call, owner=owner, on_failed=self.policy.on_failed)

    def reserve(
        self, call: Call, *, wait: int, sends: int, place: str = ""
    ) -> Reserved | Refused | Abandoned:
        """Write the key's row for ``call`` in the open transaction; the sweeper sends it after ``wait``.

        Waits at most 2 s for another open transaction that holds the key, and then answers as if
        that transaction had committed. With a ``place`` a refusal may be recorded at once. Raises
        :class:`KeyReused` for another payload under the key.
        """
        outcome: Reserved | Refused | Abandoned | None = self.foreseen(call, place, undone=True)
        deadline = time.monotonic() + LONGEST_HOLD  # not before: nobody is refused a key that was only read
        while outcome is None:
            outcome = self._reserved(call, wait=wait, sends=sends, place=place)
            if outcome is None:
                if time.monotonic() > deadline:
                    return Refused(IN_PROGRESS, "", Answer(State.PENDING, Reason.NONE, None), None)
                time.sleep(HOLD_PACE)
        if place:
            guesses.learn(place, call.task, is_duplicate=isinstance(outcome, Refused))
        return outcome

    def foreseen(self, call: Call, place: str, *, undone: bool) -> Refused | None:
        """The refusal of a call of which the calls before it make expect one; None: go the usual way.

        ``undone``: also while the call that has the key has not ended.
        """
        if not place or not guesses.expects_a_duplicate(place, call.task):
            return None
        return self.store.refuse_at_once(call, place=place, undone=undone)

    def _reserved(
        self, call: Call, *, wait: int, sends: int, place: str
    ) -> Reserved | Refused | Abandoned | None:
        """One try; None where somebody else has the key for a moment."""
        token = self.store.reserve_new(call, wait=wait, sends=sends)
        if token is None:
            entry, verdict = self._look_to_send(call, place)
            if entry is not None and verdict.step is not Step.REOPEN:
                return self.unreserved(call, entry, verdict)
            if entry is not None:
                window = settings().redelivery_window
                token = self.store.reserve_finished(call, wait=wait, sends=sends, seen=entry, window=window)
        return None if token is None else Reserved(token)

    def _look_to_send(self, call: Call, place: str) -> tuple[Entry | None, Verdict]:
        if not place:
            return self.look(call, owner="")
        return self.judge(self.store.read_refusing(call, place=place), call, "")

    def unreserved(self, call: Call, entry: Entry, verdict: Verdict) -> Refused | Abandoned:
        """What a sender gets whose key has a row that is not to be taken; raises :class:`KeyReused`."""
        answer = Answer(entry.state, entry.reason, entry.result)
        is_same = call.task_id in {entry.task_id, entry.runner_task_id}
        match verdict.step:
            case Step.REUSED | Step.MISMATCH:
                raise reused(call, entry, verdict)
            case Step.OPEN if entry.no_message:
                return Abandoned()
            case Step.OPEN | Step.WAIT:
                holder = call.task_id if is_same else entry.task_id
                return Refused(IN_PROGRESS, holder, answer, entry.opens_in)
            case Step.REFUSE:
                return Refused(verdict.reason, entry.task_id, answer, entry.opens_in, entry.is_noted)
            case Step.ANSWER:
                past = self.store.answer(call.identity.digest, task_id=call.task_id)
                return Refused(COMPLETED, call.task_id, past or answer, None)
            case _:  # this very call has reserved the key before
                return Refused(COMPLETED, call.task_id, answer, entry.opens_in)

    def accept(
        self, call: Call, *, wait: int, republish: int, sends: int, place: str = ""
    ) -> Reserved | Refused:
        """Like :meth:`reserve`, but also takes over a key whose owner died without a stored message."""
        deadline = time.monotonic() + LONGEST_HOLD
        while True:
            outcome = self.reserve(call, wait=wait + republish, sends=sends, place=place)
            if not isinstance(outcome, Abandoned):
                return outcome
            token = self.take_over(call, wait=wait, republish=republish)
            if token is not None:
                return Reserved(token)
            if time.monotonic() > deadline:
                return Refused(IN_PROGRESS, "", Answer(State.PENDING, Reason.NONE, None), None)
            time.sleep(HOLD_PACE)

    def take_over(self, call: Call, *, wait: int, republish: int) -> int | None:
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
