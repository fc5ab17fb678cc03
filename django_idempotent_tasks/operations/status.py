"""One look at the ledger: how many keys are where, who leads the sweeper, and what needs a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count as Counted
from django.db.models import Min, Q

from ..beat.overview import LOOKED_AT, Named, Overview, overview
from ..ledger.moments import database_now, exact, shifted
from ..ledger.stores import LedgerStore
from ..models import SWEEPER, IdempotencyKey, Leader, OperationState, RedriveOperation
from ..states import PRUNED, State
from .counts import Count, capped, of_state, of_the_dead, total
from .sentences import waits_for_its_eta

#: A sweep comes every few seconds: what is late by more has been left behind.
LATE = timedelta(minutes=1)
#: A message that was sent so often by the sweeper, with growing waits between, reaches no worker.
SENT_IN_VAIN = 2
#: Keys past their time that the sweeper deletes within seconds where it keeps up.
PRUNE_BEHIND = 1000
#: Rows whose message is looked at for its ETA.
SAMPLE = 100
#: Running redrives that a status tells of.
SHOWN = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that needs a person, and what to do; ``words`` may name the count."""

    name: str
    count: Count
    words: str

    @property
    def text(self) -> str:
        """The finding in a sentence or two."""
        return self.words.format(self.count)


@dataclass(slots=True)
class Status:
    """The numbers of one look."""

    now: datetime
    leader: Leader | None
    states: dict[State, Mapping[str, Any]] = field(default_factory=dict)
    unsent: Count = field(default_factory=lambda: Count(0))
    redrives: list[RedriveOperation] = field(default_factory=list)
    #: None where beat has no part in this ledger.
    beat: Overview | None = None

    def count(self, state: State, name: str = "number") -> Count:
        """One number of a state: a bound where only a part of its keys was looked at."""
        counts = self.states[state]
        number, is_part = counts[name], capped(counts["number"]).is_bound
        return Count(min(number, capped(number).number), is_part and number > 0)

    @property
    def is_led(self) -> bool:
        """Whether somebody leads the sweeper now."""
        return self.leader is not None and exact(self.leader.expires_at) > exact(self.now)


def look(store: LedgerStore) -> Status:
    """Read the numbers, a bounded part of an index for each state."""
    alias, now = store.connection.alias, database_now(store)
    seen = Status(now, Leader.objects.using(alias).filter(name=SWEEPER).first())
    for state in State:
        seen.states[state] = of_state(alias, state).aggregate(**_numbers(state, now))
    seen.unsent = _unsent(alias, now)
    seen.redrives = running_redrives(alias)
    seen.beat = overview(store, now)
    return seen


def _numbers(state: State, now: datetime) -> dict[str, Any]:
    """What is counted of a state; of those that may be many only what the index holds."""
    late = shifted(now, -LATE)
    numbers: dict[str, Any] = {
        "number": Counted("state"),
        "due": Counted("state", filter=Q(due_at__lte=now)),
    }
    match state:
        case State.PENDING | State.RETRY:
            stuck = Q(due_at__lte=late) | Q(sends__gte=SENT_IN_VAIN)
            if state is State.RETRY:  # its due time stays in open_at when the broker does not take it
                stuck |= Q(due_at__lte=now, open_at__lte=late, sends=-1)
            numbers |= {"stuck": Counted("state", filter=stuck), "oldest": Min("created_at")}
        case State.RUNNING:
            numbers["open"] = Counted("state", filter=Q(open_at__lte=now))
            numbers["stuck"] = Counted("state", filter=Q(open_at__lte=late))
        case State.FAILED | State.REVIEW:
            numbers |= of_the_dead()
    if state in PRUNED:
        numbers["past"] = Counted("state", filter=Q(due_at__lte=late))
    return numbers


def _unsent(alias: str, now: datetime) -> Count:
    """PENDING keys for over a minute that no broker took. Their due time moves with each try."""
    keys = IdempotencyKey.objects.using(alias)
    past = shifted(now, -LATE)
    tried = keys.filter(state=State.PENDING, sends=-1, due_at__gt=past, due_at__lte=now)
    rows = list(tried.filter(created_at__lte=past).order_by("due_at")[: SAMPLE + 1])
    late = [row for row in rows[:SAMPLE] if not waits_for_its_eta(row, past)]
    return Count(len(late), len(rows) > SAMPLE and bool(late))


def running_redrives(alias: str) -> list[RedriveOperation]:
    """Those that the sweeper is at, the oldest first; not more than a person would read."""
    found = RedriveOperation.objects.using(alias).filter(state=OperationState.RUNNING)
    return list(found.order_by("id")[:SHOWN])


def findings(seen: Status) -> list[Finding]:
    """What needs a person, worst first."""
    unled = Count(0 if seen.is_led else 1)
    waiting = total(seen.count(State.PENDING, "stuck"), seen.unsent)
    found = [
        Finding(
            "no_leader",
            unled,
            "Nobody leads the sweeper: start a worker with SWEEPER = 'thread', or 'idem sweep'.",
        ),
        Finding(
            "expired_leases",
            seen.count(State.RUNNING, "stuck"),
            "{} lease(s) are over for more than a minute: nothing is stored to send again, or nobody sweeps."
            " See 'idem keys list --state running'.",
        ),
        Finding(
            "pending_overdue",
            waiting,
            "{} PENDING key(s) are overdue: does a worker consume their queue, does the broker take messages?"
            " See 'idem keys list --state pending'.",
        ),
        Finding(
            "retry_overdue",
            seen.count(State.RETRY, "stuck"),
            "{} RETRY key(s) are overdue: does a worker consume their queue, does the broker take messages?"
            " See 'idem keys list --state retry'.",
        ),
        Finding(
            "failed",
            seen.count(State.FAILED, "kept"),
            "{} key(s) FAILED: see 'idem dead-letters list --state failed'.",
        ),
        Finding(
            "review",
            seen.count(State.REVIEW, "kept"),
            "{} key(s) in REVIEW wait for a decision: see 'idem dead-letters list --state review'.",
        ),
    ]
    return [each for each in [*found, *_behind(seen), *beat_findings(seen.beat)] if each.count.number]


def _behind(seen: Status) -> list[Finding]:
    """Keys that should be gone: a bite of them, since the sweeper comes by every few seconds."""
    past = total(*(seen.count(state, "past") for state in PRUNED))
    words = (
        "{} key(s) are past their time for over a minute: the sweeper is behind with deleting them."
        " 'idem prune --yes --pause 0' helps; does the database keep up?"
    )
    return [Finding("prune_behind", past, words)] if past.number >= PRUNE_BEHIND else []


def beat_findings(seen: Overview | None) -> Iterator[Finding]:
    """What needs a person; nothing where no beat of ours has ever led."""
    if seen is None or seen.leader is None:
        return
    yield Finding(
        "beat_no_leader",
        Count(int(seen.has_entries and not seen.is_led)),
        "Nobody leads beat while periodic tasks are enabled: start one, 'manage.py idem beat'.",
    )
    yield Finding(
        "beat_overdue",
        _count(seen.overdue),
        "{} periodic task(s) are overdue for more than a minute: does beat run, and what does it log?"
        " See 'idem health beat'.",
    )
    yield Finding(
        "beat_unreadable",
        _count(seen.unreadable),
        "{} periodic task(s) cannot be read, so that beat sends nothing of them; the others go on."
        " 'idem health beat' names them, what is wrong and the remedy.",
    )
    yield Finding(
        "beat_stranger",
        _count(seen.strangers),
        "{} periodic task(s) were also sent by an ordinary beat within a day, so that they ran twice:"
        " stop every 'celery beat' that runs without our scheduler.",
    )


def _count(found: list[Named]) -> Count:
    return Count(len(found), len(found) >= LOOKED_AT)
