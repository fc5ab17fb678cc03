"""``idem status``: prints how many keys are in each state, who sweeps, and what needs a person."""

from __future__ import annotations

from datetime import datetime

from ...beat.overview import Named, Overview
from ...identity.text import harmless
from ...ledger.constraints import missing_in
from ...ledger.moments import exact
from ...ledger.stores import LedgerStore
from ...models import DEAD, Leader
from ...operations.counts import TO_DECIDE, Count, total
from ...operations.findings import Finding, findings
from ...operations.incidents import page_of
from ...operations.status import Status, look
from ...operations.text import since, span, table
from ...operations.workers import leader_words
from ...states import State
from ..cli.report import FINDINGS, FINE, Options, Report, Say
from ..dead_letters.operations import operation_facts, progress
from .pauses import pause_lines

#: How many names of periodic tasks are listed.
LISTED = 20


def status(store: LedgerStore, _options: Options, _say: Say) -> Report:
    """Read the numbers once; with findings the exit code is 1."""
    seen = look(store)
    found = [*_missing(store), *findings(seen)]
    facts = {
        "states": {state.name.lower(): _state_facts(seen, state) for state in State},
        "oldest_pending_seconds": _age(seen),
        "expired_leases": seen.count(State.RUNNING, "open").facts(),
        "dead_letters": _dead_facts(seen),
        "expected_ends": seen.count(State.FAILED, "expected").facts(),
        "sweeper": _leader_facts(seen),
        "beat": beat_facts(seen.beat),
        "would_refuse": seen.would_refuse.facts(),
        "pauses": [each.facts() for each in seen.pauses],
        "redrives": [operation_facts(row) for row in seen.redrives],
        "findings": [_finding_facts(each) for each in found],
    }
    return Report(facts, [*_lines(seen), *_finding_lines(found)], FINDINGS if found else FINE)


def _finding_facts(found: Finding) -> dict[str, object]:
    return {"name": found.name, **found.count.facts(), "text": found.text, "link": page_of(found.name)}


def _missing(store: LedgerStore) -> list[Finding]:
    return [
        Finding("missing_constraint", Count(1), f"{each.text} {each.remedy}") for each in missing_in(store)
    ]


def _age(seen: Status) -> float | None:
    """The age in seconds of the oldest PENDING key that was read; None without any."""
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
                ("expected ends", seen.count(State.FAILED, "expected")),
                *_shadow_lines(seen),
                *pause_lines(seen.pauses, seen.now),
                *((f"redrive {row.pk}", harmless(progress(row))) for row in seen.redrives),
            ]
        ),
    ]


def _dead(seen: Status, name: str) -> Count:
    return total(*(seen.count(state, name) for state in DEAD))


def _oldest_dead(seen: Status) -> datetime | None:
    """When the oldest dead letter failed, of those that were read."""
    return min(filter(None, (seen.states[state]["oldest"] for state in DEAD)), default=None)


def _dead_facts(seen: Status) -> dict[str, object]:
    by_category = {each.name.lower(): _dead(seen, each.name).facts() for each in TO_DECIDE}
    return {**_dead(seen, "kept").facts(), "categories": by_category, "oldest": _oldest_dead(seen)}


def _dead_text(seen: Status) -> str:
    oldest = _oldest_dead(seen)
    if oldest is None:
        return "none"
    counts = [(_dead(seen, each.name), each.name.lower().replace("_", " ")) for each in TO_DECIDE]
    kinds = ", ".join(f"{count} {name}" for count, name in counts if count.number)
    return f"{kinds or 'some'}; the oldest {since(oldest, seen.now)} ago"


def _shadow_lines(seen: Status) -> list[tuple[str, str]]:
    if not seen.would_refuse.number:
        return []
    return [("shadow mode", f"{seen.would_refuse} calls ran in the last day that the guard would refuse")]


def _leader_text(seen: Status) -> str:
    if seen.leader is None:
        return "nobody leads, and nobody ever did"
    holder = leader_words(seen.leader.holder)
    if seen.is_led:
        return f"{holder} leads for {since(seen.leader.since, seen.now)}"
    return f"nobody leads; {holder} did until {since(seen.leader.expires_at, seen.now)} ago"


def _finding_lines(found: list[Finding]) -> list[str]:
    if not found:
        return ["", "Nothing needs a person."]
    lines = [line for each in found for line in (f"- {each.text}", f"  {page_of(each.name)}")]
    return ["", "Needs a person:", *lines]


def beat_text(seen: Overview) -> str:
    """Which beat leads, and how many stand by."""
    leader = seen.leader
    if leader is None:
        return "nobody leads, and nobody ever did"
    holder = leader_words(leader.holder)
    if not seen.is_led:
        return f"nobody leads; {holder} did until {since(leader.expires_at, seen.now)} ago"
    return f"{holder} leads for {since(leader.since, seen.now)}, {len(seen.standbys)} stand by"


def beat_facts(seen: Overview | None) -> dict[str, object] | None:
    """The state of beat, for JSON."""
    if seen is None:
        return None
    return {
        "leader": _leader(seen.leader) if seen.is_led else None,
        "standbys": [_leader(each) for each in seen.standbys],
        "overdue": _names(seen.overdue),
        "unreadable": _names(seen.unreadable),
        "also_sent_by_another_beat": _names(seen.strangers),
    }


def _leader(row: Leader | None) -> dict[str, object] | None:
    return None if row is None else {"holder": row.holder, "since": row.since}


def _names(found: list[Named]) -> list[str]:
    return [each.name for each in found[:LISTED]]
