"""Probes the sweeper: whether a process leads it, and whether what leads also sweeps."""

from __future__ import annotations

from datetime import datetime, timedelta

from ...beat.overview import leads
from ...ledger.moments import database_now, exact
from ...ledger.stores import LedgerStore
from ...ledger.sweeps import seconds_since_sweep
from ...models import SWEEPER, SWEPT, Leader
from ..findings import no_sweeper
from ..text import span
from ..workers import leader_words
from .probe import Health


def sweeper_health(store: LedgerStore, *, late: timedelta) -> Health:
    """Whether the sweeper that leads has ended a sweep within ``late``; raises what the database raises."""
    rows = Leader.objects.using(store.connection.alias).in_bulk([SWEEPER, SWEPT])
    now, leader = database_now(store), rows.get(SWEEPER)
    if leader is None or not leads(leader, now):
        return Health(no_sweeper(), [no_sweeper()], {"leader": None, "last_sweep_seconds": None})
    age = seconds_since_sweep(rows.get(SWEPT), now)
    led = (exact(now) - exact(leader.since)).total_seconds()
    facts = {"leader": leader.holder, "led_seconds": round(led, 1), "last_sweep_seconds": age}
    holder, limit = leader_words(leader.holder), late.total_seconds()
    if led > limit and (age is None or age > limit):
        ended = "has never ended a sweep" if age is None else f"ended its last sweep {span(age)} ago"
        problem = f"{holder} leads the sweeper for {span(led)} and {ended}: its log says why."
        return Health(problem, [problem], facts)
    ended = "has just begun" if age is None else f"ended a sweep {span(age)} ago"
    return Health(f"{holder} leads the sweeper, and {ended}.", [], facts)


def last_sweep(store: LedgerStore, now: datetime) -> float | None:
    """The seconds since a sweep last ended without an error; None where none was noted."""
    note = Leader.objects.using(store.connection.alias).filter(name=SWEPT).first()
    return seconds_since_sweep(note, now)
