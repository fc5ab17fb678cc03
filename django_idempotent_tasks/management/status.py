"""``idem status``: how many keys are where, who sweeps, and what needs a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count as Counted
from django.db.models import Min, Q

from ..beat.overview import Overview, overview
from ..constraint_checks import missing_in
from ..models import DEAD, SWEEPER, IdempotencyKey, Leader, RedriveOperation
from ..moments import database_now, exact, shifted
from ..pruning import BITE, PRUNED
from ..states import Category, State
from ..stores import LedgerStore
from .beat_findings import beat_facts, beat_findings, beat_text
from .counts import Count, capped, of_state, of_the_dead
from .finding import Finding
from .pending import waits_for_its_eta
from .redrives import operation_facts, progress, running_redrives
from .report import FINDINGS, FINE, Options, Report, Say
from .text import harmless, since, span, table

#: A sweep comes every few seconds: what is late by more has been left behind.
LATE = timedelta(minutes=1)
#: A message that was sent so often by the sweeper, with growing waits between, reaches no worker.
SENT_IN_VAIN = 2
#: Rows whose message is looked at for its ETA.
SAMPLE = 100


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


def status(store: LedgerStore, _options: Options, _say: Say) -> Report:
    """Look once. Findings are the exit code."""
    seen = look(store)
    found = [*_missing(store), *findings(seen)]
    facts = {
        "states": {state.name.lower(): _state_facts(seen, state) for state in State},
        "oldest_pending_seconds": _age(seen),
        "expired_leases": seen.count(State.RUNNING, "open").facts(),
        "dead_letters": _dead_facts(seen),
        "sweeper": _leader_facts(seen),
        "beat": beat_facts(seen.beat),
        "redrives": [operation_facts(row) for row in seen.redrives],
        "findings": [{"name": each.name, **each.count.facts(), "text": each.text} for each in found],
    }
    return Report(facts, [*_lines(seen), *_finding_lines(found)], FINDINGS if found else FINE)


def _missing(store: LedgerStore) -> list[Finding]:
    return [
        Finding("missing_constraint", Count(1), f"{each.text} {each.remedy}") for each in missing_in(store)
    ]


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


def findings(seen: Status) -> list[Finding]:
    """What needs a person, worst first."""
    unled = Count(0 if seen.is_led else 1)
    waiting = _sum(seen.count(State.PENDING, "stuck"), seen.unsent)
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
    past = _sum(*(seen.count(state, "past") for state in PRUNED))
    words = (
        "{} key(s) are past their time for over a minute: the sweeper is behind with deleting them."
        " 'idem prune --yes --pause 0' helps; does the database keep up?"
    )
    return [Finding("prune_behind", past, words)] if past.number >= BITE else []


def _sum(*counts: Count) -> Count:
    return Count(sum(each.number for each in counts), any(each.is_bound for each in counts))


def _age(seen: Status) -> float | None:
    """Of the oldest PENDING key among those that were looked at."""
    oldest = seen.states[State.PENDING]["oldest"]
    return None if oldest is None else round((exact(seen.now) - exact(oldest)).total_seconds(), 1)


def _age_text(seen: Status) -> str:
    age, bound = _age(seen), "at least " if seen.count(State.PENDING).is_bound else ""
    return "none" if age is None else f"{bound}{span(age)}"


def _state_facts(seen: Status, state: State) -> dict[str, object]:
    return {**seen.count(state).facts(), "due": seen.count(state, "due").facts()}


def _leader_facts(seen: Status) -> dict[str, object] | None:
    leader = seen.leader
    if leader is None or not seen.is_led:
        return None
    left = (exact(leader.expires_at) - exact(seen.now)).total_seconds()
    return {"leader": leader.holder, "since": leader.since, "lease_left_seconds": round(left, 1)}


def _lines(seen: Status) -> list[str]:
    rows = [(state.name.lower(), seen.count(state), seen.count(state, "due")) for state in State]
    return [
        *table([("state", "keys", "due"), *rows]),
        "",
        *table(
            [
                ("sweeper", _leader_text(seen)),
                *([("beat", beat_text(seen.beat))] if seen.beat else []),
                ("oldest pending", _age_text(seen)),
                ("expired leases", seen.count(State.RUNNING, "open")),
                ("dead letters", _dead_text(seen)),
                *((f"redrive {row.pk}", harmless(progress(row))) for row in seen.redrives),
            ]
        ),
    ]


def _dead(seen: Status, name: str) -> Count:
    return _sum(*(seen.count(state, name) for state in DEAD))


def _oldest_dead(seen: Status) -> datetime | None:
    """When the oldest one failed, of those that were looked at."""
    return min(filter(None, (seen.states[state]["oldest"] for state in DEAD)), default=None)


def _dead_facts(seen: Status) -> dict[str, object]:
    by_category = {each.name.lower(): _dead(seen, each.name).facts() for each in Category}
    return {**_dead(seen, "kept").facts(), "categories": by_category, "oldest": _oldest_dead(seen)}


def _dead_text(seen: Status) -> str:
    oldest = _oldest_dead(seen)
    if oldest is None:
        return "none"
    counts = [(_dead(seen, each.name), each.name.lower().replace("_", " ")) for each in Category]
    kinds = ", ".join(f"{count} {name}" for count, name in counts if count.number)
    return f"{kinds or 'some'}; the oldest {since(oldest, seen.now)} ago"


def _leader_text(seen: Status) -> str:
    if seen.leader is None:
        return "nobody leads, and nobody ever did"
    holder = harmless(seen.leader.holder)
    if seen.is_led:
        return f"{holder} leads for {since(seen.leader.since, seen.now)}"
    return f"nobody leads; {holder} did until {since(seen.leader.expires_at, seen.now)} ago"


def _finding_lines(found: list[Finding]) -> list[str]:
    if not found:
        return ["", "Nothing needs a person."]
    return ["", "Needs a person:", *(f"- {each.text}" for each in found)]
