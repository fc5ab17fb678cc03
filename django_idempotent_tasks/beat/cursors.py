"""Reads and begins the cursors of many entries at once."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ..models import BeatCursor
from ..stores import LedgerStore
from .entry import CursorEntry

#: Entries of one query.
BITE = 500


def place(entries: Iterable[CursorEntry], *, now: datetime, store: LedgerStore) -> None:
    """Give each entry its cursor; one that is new, edited or enabled again begins now.

    So what came before is not missed, and an edit never makes another entry due.
    """
    everyone = {entry.model.pk: entry for entry in entries}
    cursors = {cursor.pk: cursor for cursor in BeatCursor.objects.using(store.connection.alias).all()}
    fresh, edited = [], []
    for pk, entry in everyone.items():
        cursor = cursors.get(pk)
        if cursor is not None and cursor.schedule == entry.fingerprint():
            entry.last_due_at = cursor.last_due_at
            continue
        entry.last_due_at = _first(entry, now) if cursor is None else entry.begins_after(now)
        (fresh if cursor is None else edited).append(_cursor(entry, now))
    _save(fresh, edited, store)
    _forget(cursors.keys() - everyone.keys(), store)


def _first(entry: CursorEntry, now: datetime) -> datetime | None:
    """Of an entry that another scheduler has run before: what it sent last."""
    if entry.model.total_run_count and entry.model.last_run_at and not entry.is_clocked:
        last: datetime = entry.model.last_run_at
        return min(last, now)
    return entry.begins_after(now)


def _cursor(entry: CursorEntry, now: datetime) -> BeatCursor:
    return BeatCursor(
        periodic_task_id=entry.model.pk,
        last_due_at=entry.last_due_at,
        schedule=entry.fingerprint(),
        updated_at=now,
    )


def _save(fresh: list[BeatCursor], edited: list[BeatCursor], store: LedgerStore) -> None:
    """Another beat may do the same at this moment: its cursors differ by a moment, and one of each wins."""
    cursors = BeatCursor.objects.using(store.connection.alias)
    cursors.bulk_create(fresh, batch_size=BITE, ignore_conflicts=True)
    cursors.bulk_update(edited, ["last_due_at", "schedule", "updated_at"], batch_size=BITE)


def _forget(gone: Iterable[int], store: LedgerStore) -> None:
    """An entry that is disabled now begins anew once it is enabled."""
    ids = sorted(gone)
    for start in range(0, len(ids), BITE):
        names = ids[start : start + BITE]
        BeatCursor.objects.using(store.connection.alias).filter(pk__in=names).exclude(schedule="").update(
            schedule=""
        )
