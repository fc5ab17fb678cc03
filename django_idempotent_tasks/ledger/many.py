"""Reserves many calls at once: one statement for those whose keys are free, one look at the others."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from ..conf import settings
from ..exceptions import KeyReused
from ..signals import announce, duplicate_detected
from ..states import Reason, State
from . import following
from .ledger import Ledger
from .reservable import Reservable
from .reserving import HOLD_PACE, LONGEST_HOLD
from .rules import IN_PROGRESS, Step
from .values import Abandoned, Answer, Call, Entry, Following, Refused, Reserved, Wanted

#: The token of a row that was just reserved, and what becomes of a call whose key was free.
NEW = 0
_NEW = Reserved(NEW)

Accepted = Reserved | Following | Refused | KeyReused


class Intake:
    """Calls of one task on their way in; ``outcomes`` by the place of each among them."""

    def __init__(self, ledger: Ledger, wanted: Sequence[Reservable]) -> None:
        self.ledger = ledger
        self.wanted = wanted
        self.outcomes: dict[int, Accepted] = {}
        #: Whether each call has reserved a key that was free, as nearly always.
        self.are_new = False

    def accept(self) -> dict[int, Accepted]:
        """What becomes of each call, as ``Ledger.accept`` says of one; of the same key the first is accepted.

        Waits at most 2 s for a key that another open transaction holds. That call is then refused without
        a holder, and what was to follow it in the order of keys has no outcome.
        """
        digests = [each.hex for each in self.wanted]
        firsts = dict(zip(reversed(digests), reversed(range(len(digests))), strict=True))
        in_order = sorted(firsts.values(), key=digests.__getitem__)
        if self.ledger.policy.follows:
            for place in in_order:
                self._accept_alone(place)
        else:
            self._reserve(in_order)
        if self.are_new:
            return self.outcomes
        if any(isinstance(each, Refused) and not each.holder for each in self.outcomes.values()):
            return self.outcomes
        later = self._without(range(len(self.wanted)))
        self._judge([] if self.ledger.policy.follows else later)
        for place in self._without(later):
            self._accept_alone(place)
        return self.outcomes

    def _without(self, places: Iterable[int]) -> list[int]:
        """Those that have no outcome yet."""
        return [place for place in places if place not in self.outcomes]

    def _reserve(self, places: list[int]) -> None:
        deadline = time.monotonic() + LONGEST_HOLD
        while places:
            left = self.ledger.store.left_of_many([self.wanted[place] for place in places])
            made = [place for place in places if self.wanted[place].hex not in left] if left else places
            self.outcomes |= dict.fromkeys(made, _NEW)
            if len(made) == len(self.wanted):
                self.are_new = True
                return
            self._judge(self._without(places))
            places = self._without(places)
            if places and time.monotonic() > deadline:
                self._reserve_in_turn(places)
                return
            if places:
                time.sleep(HOLD_PACE)

    def _reserve_in_turn(self, places: list[int]) -> None:
        """Find the key that is held; what could be reserved after all is."""
        for place in places:
            each = self.wanted[place]
            due_in = each.wait + each.republish
            token = self.ledger.store.reserve_new(each.call, wait=due_in, sends=each.sends)
            if token is None:
                self._judge([place])
            else:
                self.outcomes[place] = Reserved(token)
            if place not in self.outcomes:
                self.outcomes[place] = Refused(
                    IN_PROGRESS, "", Answer(State.PENDING, Reason.NONE, None), None
                )
                return

    def _judge(self, places: list[int]) -> None:
        """Decide about those whose keys have a row; what another transaction holds has none yet."""
        if not places:
            return
        entries = self.ledger.store.read_many([self.wanted[place].call for place in places])
        for place, entry in zip(places, entries, strict=True):
            if entry is not None:
                try:
                    self._judge_one(place, entry)
                except KeyReused as error:
                    self.outcomes[place] = error

    def _judge_one(self, place: int, seen: Entry) -> None:
        each = self.wanted[place]
        entry, verdict = self.ledger.judge(seen, each.call, "")
        if verdict.step is Step.REOPEN:
            self._reserve_anew(place, seen)
            return
        outcome = self.ledger.unreserved(each.call, entry or seen, verdict)
        if isinstance(outcome, Abandoned):
            self._accept_alone(place)
        else:
            self.outcomes[place] = outcome

    def _reserve_anew(self, place: int, seen: Entry) -> None:
        """Take a finished key; without an outcome where somebody was faster."""
        each, window = self.wanted[place], settings().redelivery_window
        token = self.ledger.store.reserve_finished(
            each.call, wait=each.wait + each.republish, sends=each.sends, seen=seen, window=window
        )
        if token is not None:
            self.outcomes[place] = Reserved(token)

    def _accept_alone(self, place: int) -> None:
        each = self.wanted[place]
        wanted = Wanted(each.call, each.wait, each.republish, each.sends)
        try:
            self.outcomes[place] = following.accept(self.ledger, wanted)
        except KeyReused as error:
            self.outcomes[place] = error


def refuse_many(ledger: Ledger, refused: Sequence[tuple[Call, Refused]], *, place: str) -> None:
    """Record refused duplicates, as ``Ledger.refuse`` does with one."""
    if not refused:
        return
    ledger.store.record_duplicates([(call, each.reason) for call, each in refused], place=place)
    for call, each in refused:
        announce(
            duplicate_detected,
            sender=call.task,
            using=ledger.store.connection.alias,
            call=call,
            reason=each.reason,
            holder=each.holder,
        )
