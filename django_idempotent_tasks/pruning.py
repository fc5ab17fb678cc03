"""Deletes what is past its time, in bounded bites that lock nobody out."""

from __future__ import annotations

from .conf import settings
from .states import State
from .stores import LedgerStore

#: Rows of one kind that one statement deletes.
BITE = 1000

#: Seconds that hourly counts are kept.
HOURLY_KEEP = 90 * 24 * 60 * 60

#: REVIEW is never pruned: it waits for a person. What is live is never past its time.
PRUNED = (State.SUCCEEDED, State.CANCELLED, State.FAILED)


def prune_bite(store: LedgerStore, *, bite: int = BITE) -> dict[str, int]:
    """Delete at most ``bite`` rows of each kind; how many of each.

    Keys by the time that their end gave them, answers of replaced calls by ``REDELIVERY_WINDOW``,
    summed duplicate attempts by ``RETENTION``, failed jobs by ``DEAD_LETTER_RETENTION``,
    hourly counts by 90 days.
    """
    deleted = {state.name.lower(): store.prune(state, bite=bite) for state in PRUNED}
    keep = settings().dead_letter_retention
    deleted["failed_jobs"] = store.prune_failed(keep=keep, bite=bite)
    deleted["answered"] = store.prune_answered(bite=bite)
    deleted["duplicates"] = store.prune_duplicates(keep=settings().retention, bite=bite)
    deleted["hourly"] = store.prune_hourly(keep=HOURLY_KEEP, bite=bite)
    return deleted
