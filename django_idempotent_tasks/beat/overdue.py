"""Finds entries that are overdue, and entries that cannot be read, for the probe ``idem health beat``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from celery import Celery

from ..ledger.stores import LedgerStore
from ..models import BeatCursor
from .clock import aware
from .duty import READ_AGAIN
from .entries import Entries
from .entry import CursorEntry
from .readable import Aside


@dataclass(frozen=True, slots=True)
class Overdue:
    """An entry, and since when it is due; None where no beat has read it yet."""

    name: str
    due: datetime | None


def overdue(
    app: Celery, store: LedgerStore, *, now: datetime, late: timedelta
) -> tuple[list[Overdue], list[Aside]]:
    """The enabled entries that are due for longer than ``late``, the oldest first; and unreadable entries.

    Writes nothing. Raises what the database raises for another reason than a row's content.
    """
    cursors = BeatCursor.objects.using(store.connection.alias).values_list("pk", "last_due_at", "schedule")
    known = {pk: (due, schedule) for pk, due, schedule in cursors}
    entries, found = Entries(app, is_logged=False), []
    for entry in entries.read():
        try:
            each = _late(entry, known, now, late)
        except Exception as error:  # noqa: BLE001  as many as there are kinds of schedules
            entries.has_no_time(entry, error)
            continue
        if each is not None:
            found.append(each)
    ordered = sorted(found, key=lambda each: (each.due is not None, each.due or now))
    return ordered, sorted(entries.aside.values(), key=lambda each: each.name)


def _late(
    entry: CursorEntry,
    known: dict[int, tuple[datetime | None, str]],
    now: datetime,
    late: timedelta,
) -> Overdue | None:
    last, schedule = known.get(entry.model.pk, (None, ""))
    if schedule != entry.fingerprint:
        entry.grid.after(entry.cursor_anew(now))  # raises where a beat would raise too
        unseen = now - aware(entry.model.date_changed) > late + timedelta(seconds=READ_AGAIN)
        return Overdue(entry.name, None) if unseen else None
    due = entry.grid.after(None if last is None else aware(last))
    return Overdue(entry.name, due) if due is not None and now - due > late else None
