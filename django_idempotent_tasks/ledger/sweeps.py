"""Notes when the sweeper has ended a sweep without an error, for whoever asks whether it sweeps at all."""

from __future__ import annotations

from datetime import datetime, timedelta

from ..models import SWEPT, Leader
from .moments import exact
from .stores import LedgerStore

#: Seconds from a note to the end of its row's lease, by which the time of the note is read.
NOTED_FOR = 3600


def note_sweep(store: LedgerStore) -> None:
    """Note that a sweep has ended now."""
    store.lead(SWEPT, holder=SWEPT, lease=NOTED_FOR)


def seconds_since_sweep(note: Leader | None, now: datetime) -> float | None:
    """The seconds since the last sweep without an error; None where none was noted."""
    if note is None:
        return None
    noted = exact(note.expires_at) - timedelta(seconds=NOTED_FOR)
    return round(max((exact(now) - noted).total_seconds(), 0.0), 1)
