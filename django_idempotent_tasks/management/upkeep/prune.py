"""``idem prune``: deletes rows that are past their retention, in bites, until none is left."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from ...conf import settings
from ...ledger.moments import database_now, shifted
from ...ledger.stores import LedgerStore
from ...operations.counts import (
    CAP,
    Count,
    answered_past_their_time,
    batches_past_their_time,
    capped,
    duplicates_past_their_time,
    failed_jobs_past_their_time,
    hourly_past_their_time,
    past_their_time,
    redrives_past_their_time,
    workers_past_their_time,
)
from ...states import PRUNED
from ...sweeper.prune import HOURLY_KEEP, WORKER_KEEP, gone_cursors, prune_bite
from ..cli.report import Options, Report, Say
from .erase import erase


def prune(store: LedgerStore, options: Options, say: Say) -> Report:
    """Delete with ``--yes``, count without; with ``--scope`` erase a tenant."""
    if options.get("scope") is not None:
        return erase(store, options, say)
    if not options["yes"]:
        return _planned(store)
    deleted: Counter[str] = Counter()
    left = False
    for bite, left in _bites(store, options):
        deleted.update(bite)
        if left:
            say(f"{_listed(deleted)} deleted ...")
    lines = [f"Deleted: {_listed(deleted)}."]
    if left:
        lines.append("Stopped at --max-seconds; more is left.")
    return Report({"outcome": "done", "deleted": dict(deleted), "more": left}, lines)


def _bites(store: LedgerStore, options: Options) -> Iterator[tuple[dict[str, int], bool]]:
    """What each bite deleted, and whether more may be left."""
    limit, size = options["max_seconds"], options["bite"]
    end = None if limit is None else time.monotonic() + limit
    while True:
        bite = prune_bite(store, bite=size)
        left = max(bite.values()) >= size
        yield bite, left
        if not left or (end is not None and time.monotonic() >= end):
            return
        time.sleep(options["pause"])


def _planned(store: LedgerStore) -> Report:
    counts = _past_their_time(store)
    lines = [f"Dry run: would delete {_listed(counts)}.", "Say --yes to do it."]
    facts = {name: count.facts() for name, count in counts.items()}
    return Report({"outcome": "dry run", "past_their_time": facts}, lines)


def _past_their_time(store: LedgerStore) -> dict[str, Count]:
    """How many of each kind that the real run deletes."""
    alias, now = store.connection.alias, database_now(store)

    def before(keep: int) -> datetime:
        return shifted(now, -timedelta(seconds=keep))

    keep = before(settings().dead_letter_retention)
    return {state.name.lower(): past_their_time(alias, state, now) for state in PRUNED} | {
        "failed_jobs": failed_jobs_past_their_time(alias, keep),
        "answered": answered_past_their_time(alias, now),
        "duplicates": duplicates_past_their_time(alias, before(settings().retention)),
        "hourly": hourly_past_their_time(alias, before(HOURLY_KEEP)),
        "redrives": redrives_past_their_time(alias, keep),
        "batches": batches_past_their_time(alias, now),
        "workers": workers_past_their_time(alias, before(WORKER_KEEP)),
        "cursors": capped(len(gone_cursors(store, bite=CAP + 1))),
    }


def _listed(counts: dict[str, Count] | dict[str, int]) -> str:
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())
