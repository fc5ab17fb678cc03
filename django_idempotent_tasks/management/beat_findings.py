"""What ``idem status`` and the dashboard say of beat."""

from __future__ import annotations

from collections.abc import Iterator

from ..beat.overview import LOOKED_AT, Named, Overview
from ..models import Leader
from .counts import Count
from .finding import Finding
from .text import harmless, since

#: Names that are told.
LISTED = 20


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


def beat_text(seen: Overview) -> str:
    """Who leads, and how many stand by."""
    leader = seen.leader
    if leader is None:
        return "nobody leads, and nobody ever did"
    holder = harmless(leader.holder)
    if not seen.is_led:
        return f"nobody leads; {holder} did until {since(leader.expires_at, seen.now)} ago"
    return f"{holder} leads for {since(leader.since, seen.now)}, {len(seen.standbys)} stand by"


def beat_facts(seen: Overview | None) -> dict[str, object] | None:
    """The same, for JSON."""
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


def _count(found: list[Named]) -> Count:
    return Count(len(found), len(found) >= LOOKED_AT)
