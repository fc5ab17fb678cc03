"""Reads the numbers of a status: how many keys are in each state, and who leads the sweeper and beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count as Counted
from django.db.models import Min, Q

from ..beat.overview import NEWS, Overview, leads, overview
from ..ledger.moments import database_now, exact, shifted
from ..ledger.rules import MISMATCH, SHADOW
from ..ledger.stores import LedgerStore
from ..ledger.sweeps import seconds_since_sweep
from ..models import SWEEPER, SWEPT, DuplicateAttempt, IdempotencyKey, Leader, RedriveOperation
from ..states import PRUNED, State
from .batch_counts import left_unsealed, need_attention
from .counts import CAP, Count, capped, dead_letter_numbers, expected_ends, failed_for_good, of_state
from .pauses import Shown, shown
from .redrives import running
from .sentences import waits_for_its_eta
from .waiting import Waiting, waiting

#: A sweeper sweeps every few seconds: a key that is late by more was left behind.
LATE = timedelta(minutes=1)
#: After so many sends by the sweeper, with growing waits between, a message counts as reaching no worker.
SENT_IN_VAIN = 2
#: How many rows' messages are read for their ETA.
SAMPLE = 100


@dataclass(slots=True)
class Status:
    """The numbers of the ledger at one moment."""

    now: datetime
    leader: Leader | None
    #: Seconds since the leading sweeper ended a sweep without an error; None where none was noted.
    swept: float | None = None
    states: dict[State, Mapping[str, Any]] = field(default_factory=dict)
    unsent: Count = field(default_factory=lambda: Count(0))
    redrives: list[RedriveOperation] = field(default_factory=list)
    #: What is paused, or was and is being sent: information, no finding.
    pauses: list[Shown] = field(default_factory=list)
    #: Batches with chunks that wait for a decision, and those to which nobody adds chunks any more.
    batches: Count = field(default_factory=lambda: Count(0))
    unsealed: Count = field(default_factory=lambda: Count(0))
    #: What waits for workers that do not live, as far as all workers write of themselves.
    waiting: Waiting = field(default_factory=Waiting)
    #: Messages of the last day that named the key of another task or scope.
    mismatches: Count = field(default_factory=lambda: Count(0))
    #: Calls of the last day that ran in shadow mode and that the guard would refuse: no finding.
    would_refuse: Count = field(default_factory=lambda: Count(0))
    #: None where beat cannot run on this ledger.
    beat: Overview | None = None

    def count(self, state: State, name: str = "number") -> Count:
        """One number of a state: a bound where only a part of its keys was read."""
        counts = self.states[state]
        number, is_part = counts[name], capped(counts["number"]).is_bound
        return Count(min(number, capped(number).number), is_part and number > 0)

    @property
    def is_led(self) -> bool:
        """Whether a process leads the sweeper now."""
        return leads(self.leader, self.now)


def look(store: LedgerStore) -> Status:
    """Read the numbers, a bounded part of an index for each state."""
    alias, now = store.connection.alias, database_now(store)
    leaders = Leader.objects.using(alias).in_bulk([SWEEPER, SWEPT])
    seen = Status(now, leaders.get(SWEEPER), seconds_since_sweep(leaders.get(SWEPT), now))
    for state in State:
        seen.states[state] = of_state(alias, state).aggregate(**_numbers(state, now))
    seen.states[State.FAILED] = {
        **seen.states[State.FAILED],
        **failed_for_good(alias),
        "expected": expected_ends(alias),
    }
    seen.unsent = _unsent(alias, now)
    seen.redrives, seen.pauses = running(alias), shown(store, now)
    seen.batches, seen.unsealed = need_attention(alias), left_unsealed(alias, now)
    seen.waiting = waiting(alias, now, [each.row for each in seen.pauses])
    seen.mismatches, seen.would_refuse = _noted(alias, now)
    seen.beat = overview(store, now)
    return seen


def _noted(alias: str, now: datetime) -> tuple[Count, Count]:
    """Refused messages, and calls in shadow mode, among the newest noted calls: their ids grow with time."""
    newest = DuplicateAttempt.objects.using(alias).order_by("-id").values_list("place", "reason", "at")
    begin, rows = exact(shifted(now, -NEWS)), list(newest[: CAP + 1])
    late = [(place == SHADOW, reason) for place, reason, at in rows[:CAP] if exact(at) > begin]
    is_bound = len(rows) > CAP and exact(rows[CAP][2]) > begin
    numbers = (sum(each == (False, MISMATCH) for each in late), sum(ran for ran, _reason in late))
    mismatches, would_refuse = (Count(number, is_bound and number > 0) for number in numbers)
    return mismatches, would_refuse


def is_led(store: LedgerStore) -> bool:
    """Whether a process leads the sweeper now, asked alone."""
    return leads(_leader(store.connection.alias), database_now(store))


def _leader(alias: str) -> Leader | None:
    return Leader.objects.using(alias).filter(name=SWEEPER).first()


def _numbers(state: State, now: datetime) -> dict[str, Any]:
    """The aggregates over the keys of a state; over states with many keys only columns of the index."""
    late = shifted(now, -LATE)
    numbers: dict[str, Any] = {
        "number": Counted("state"),
        "due": Counted("state", filter=Q(due_at__lte=now)),
    }
    match state:
        case State.PENDING | State.RETRY:
            stuck = Q(due_at__lte=late) | Q(sends__gte=SENT_IN_VAIN)
            if state is State.RETRY:  # open_at keeps its time while the broker takes nothing
                stuck |= Q(due_at__lte=now, open_at__lte=late, sends=-1)
            numbers |= {"stuck": Counted("state", filter=stuck), "oldest": Min("created_at")}
        case State.RUNNING:
            numbers["open"] = Counted("state", filter=Q(open_at__lte=now))
            numbers["stuck"] = Counted("state", filter=Q(open_at__lte=late))
        case State.REVIEW:
            numbers |= dead_letter_numbers()
    if state in PRUNED:
        numbers["past"] = Counted("state", filter=Q(due_at__lte=late))
    return numbers


def _unsent(alias: str, now: datetime) -> Count:
    """Keys PENDING for over a minute whose message no broker took. Each try moves their due time."""
    keys = IdempotencyKey.objects.using(alias)
    past = shifted(now, -LATE)
    tried = keys.filter(state=State.PENDING, sends=-1, due_at__gt=past, due_at__lte=now)
    rows = list(tried.filter(created_at__lte=past).order_by("due_at")[: SAMPLE + 1])
    late = [row for row in rows[:SAMPLE] if not waits_for_its_eta(row, past)]
    return Count(len(late), len(rows) > SAMPLE and bool(late))
