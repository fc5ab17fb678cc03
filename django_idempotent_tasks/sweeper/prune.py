"""Deletes rows that are past their retention, in bounded bites that lock out no claim."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from django.apps import apps
from django.db import router

from ..beat.checks import BEAT_APP
from ..conf import settings
from ..ledger.stores import LedgerStore
from ..states import PRUNED, State
from .bite import Bite

#: Rows of one kind that one statement deletes.
BITE = 1000

#: Seconds that hourly counts are kept.
HOURLY_KEEP = 90 * 24 * 60 * 60

#: Seconds that a cursor of beat is kept after its last write, once its periodic task was deleted.
CURSOR_KEEP = 24 * 60 * 60

#: Seconds that a worker is kept after its last word.
WORKER_KEEP = 24 * 60 * 60

#: Seconds between two looks for such cursors.
LOOK_EVERY = 60.0


def prune_bite(store: LedgerStore, *, bite: int = BITE) -> dict[str, int]:
    """Delete at most ``bite`` rows of each kind, and return how many of each.

    Keys go at the time that was set when they ended, answers of replaced calls after
    ``REDELIVERY_WINDOW``, summed duplicate attempts after ``RETENTION``, failed jobs and ended redrives
    after ``DEAD_LETTER_RETENTION``, hourly counts after 90 days, cursors of deleted periodic tasks and silent
    workers after one, batches with their chunks and failed records ``DEAD_LETTER_RETENTION`` after their end.
    """
    return {name: prune(bite) for name, prune in _kinds(store).items()}


def _kinds(store: LedgerStore) -> dict[str, Callable[[int], int]]:
    """For each kind of row the function that deletes a bite of it."""

    def of(state: State) -> Callable[[int], int]:
        return lambda bite: store.prune(state, bite=bite)

    keep, kept = settings().dead_letter_retention, settings().retention
    return {state.name.lower(): of(state) for state in PRUNED} | {
        "failed_jobs": lambda bite: store.prune_failed(keep=keep, bite=bite),
        "answered": lambda bite: store.prune_answered(bite=bite),
        "duplicates": lambda bite: store.prune_duplicates(keep=kept, bite=bite),
        "hourly": lambda bite: store.prune_hourly(keep=HOURLY_KEEP, bite=bite),
        "redrives": lambda bite: store.prune_redrives(keep=keep, bite=bite),
        "batches": lambda bite: store.prune_batches(bite=bite),
        "workers": lambda bite: store.prune_workers(keep=WORKER_KEEP, bite=bite),
        "cursors": lambda bite: store.prune_cursors(gone_cursors(store, bite=bite), keep=CURSOR_KEEP),
    }


def gone_cursors(store: LedgerStore, *, bite: int) -> list[int]:
    """Cursors whose periodic task was deleted, as far as this ledger's database can tell.

    Beat prunes them itself, but perhaps no beat of this package runs any more.
    """
    entries = apps.get_model(BEAT_APP, "PeriodicTask") if apps.is_installed(BEAT_APP) else None
    if entries is None or router.db_for_write(entries) != store.connection.alias:
        return []
    return store.gone_cursors(entries=entries._meta.db_table, keep=CURSOR_KEEP, bite=bite)


@dataclass(frozen=True, slots=True)
class Tidied:
    """What one bite did, whether more may be left, and the seconds to leave to claims before the next."""

    deleted: int
    goes_on: bool
    pause: float


@dataclass(slots=True)
class Tidying:
    """Sums duplicates and deletes old rows, bite by bite; a kind goes on as long as its bites are full."""

    _bites: dict[str, Bite] = field(default_factory=dict)
    _full: set[str] | None = None
    _look_at: float = 0.0

    def go_on(self, store: LedgerStore) -> Tidied:
        """Do one bite of each kind, or of the kinds whose last bite was full. May raise a DatabaseError."""
        began = time.monotonic()
        kinds = {"summed": lambda bite: store.sum_duplicates(bite=bite), **_kinds(store)}
        full: set[str] = set()
        deleted = 0
        for name, work in kinds.items():
            if self._is_due(name) if self._full is None else name in self._full:
                done = self._take(name, work, full)
                deleted += 0 if name == "summed" else done
        self._full = full or None
        return Tidied(deleted, bool(full), time.monotonic() - began)

    def _is_due(self, name: str) -> bool:
        """Whether to look for rows of this kind now: a look for cursors reads all cursors, and is rarer."""
        if name != "cursors":
            return True
        now = time.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + LOOK_EVERY
        return True

    def _take(self, name: str, work: Callable[[int], int], full: set[str]) -> int:
        bite = self._bites.setdefault(name, Bite(BITE))
        size = bite.size
        done = bite.take(work)
        if done is None or done >= size:
            full.add(name)
        return done or 0
