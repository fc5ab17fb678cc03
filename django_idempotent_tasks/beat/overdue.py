"""Entries that should have been sent: what a probe asks for, beside whether a beat leads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from celery import Celery

from ..models import BeatCursor
from ..stores import LedgerStore
from .clock import aware
from .duty import READ_AGAIN
from .entries import Entries
from .entry import CursorEntry


@dataclass(frozen=True, slots=True)
class Overdue:
    """An entry, and since when it is due; None where no beat has looked at it yet."""

    name: str
    due: datetime | None


def overdue(app: Celery, store: LedgerStore, *, now: datetime, late: timedelta) -> list[Overdue]:
    """The enabled entries that are due for longer than ``late``, the oldest first."""
    cursors = BeatCursor.objects.using(store.connection.alias).values_list("pk", "last_due_at", "schedule")
    known = {pk: (due, schedule) for pk, due, schedule in cursors}
    found = [each for entry in Entries(app).read() if (each := _late(entry, known, now, late)) is not None]
    return sorted(found, key=lambda each: (each.due is not None, each.due or now))


def _late(
    entry: CursorEntry,
    known: dict[int, tuple[datetime | None, str]],
    now: datetime,
    late: timedelta,
) -> Overdue | None:
    last, schedule = known.get(entry.model.pk, (None, ""))
    if schedule != entry.fingerprint:
        unseen = now - aware(entry.model.date_changed) > late + timedelta(seconds=READ_AGAIN)
        return Overdue(entry.name, None) if unseen else None
    due = entry.grid.after(None if last is None else aware(last))
    return Overdue(entry.name, due) if due is not None and now - due > late else None
