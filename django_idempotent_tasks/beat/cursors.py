"""Reads, begins, locks and moves the cursors of many entries at once."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db import Error as DatabaseError
from django_celery_beat.models import PeriodicTask

from ..ledger.moments import database_now, exact
from ..ledger.stores import LedgerStore
from ..models import BeatCursor
from .clock import aware, stored
from .entry import CursorEntry
from .overview import ASIDE, is_aside

logger = logging.getLogger("django_idempotent_tasks")

#: How many rows one statement writes.
BITE = 500
#: A cursor that is further ahead of the clock was written before the clock was put back.
AHEAD = timedelta(seconds=60)


def place(
    entries: Iterable[CursorEntry], *, now: datetime, store: LedgerStore, aside: Collection[int] = ()
) -> list[tuple[CursorEntry, Exception]]:
    """Give each entry its cursor; an entry that is new, edited or enabled again begins now.

    So earlier times do not count as missed, and an edit never makes another entry due. The caller takes
    ``now`` before it reads ``entries``. Returns the entries whose next time cannot be computed, and why.
    The cursors of these, and of the entries that are set ``aside`` already, are marked and do not move: an
    entry that can be read again, with the same schedule, has missed its times meanwhile.
    """
    everyone = {entry.model.pk: entry for entry in entries}
    cursors = {pk: seen for pk, *seen in _all(store).values_list(*_SEEN)}
    fresh: list[BeatCursor] = []
    unannounced: list[BeatCursor] = []
    failed: list[tuple[CursorEntry, Exception]] = []
    for pk, entry in everyone.items():
        try:
            _place(entry, cursors.get(pk), (fresh, unannounced), now, store)
        except DatabaseError:
            raise
        except Exception as error:  # noqa: BLE001  as many as there are kinds of schedules
            failed.append((entry, error))
    # Another beat may write the same rows now: one wins, and the other reads that row when it sends.
    _all(store).bulk_create(fresh, batch_size=BITE, ignore_conflicts=True)
    _all(store).bulk_update(unannounced, ["next_due_at"], batch_size=BITE)
    left_out = {*set(aside) - everyone.keys(), *(entry.model.pk for entry, _error in failed)}
    _mark({pk: cursors.get(pk) for pk in left_out}, now, store)
    _forget(cursors.keys() - everyone.keys() - left_out, now, store)
    return failed


def _place(
    entry: CursorEntry,
    seen: list[Any] | None,
    to_write: tuple[list[BeatCursor], list[BeatCursor]],
    now: datetime,
    store: LedgerStore,
) -> None:
    """Place one entry's cursor. Raises what its schedule raises, before anything is written."""
    fresh, unannounced = to_write
    if seen is None:
        entry.last_due_at, entry.is_new = entry.first_cursor(now), True
        _ = entry.next_due
        fresh.append(_cursor(entry, now))
        return
    due, schedule, following = seen
    entry.last_due_at = None if due is None else aware(due)
    if schedule != entry.fingerprint or _is_ahead(entry, now):
        _begin_anew(entry, due, schedule, now, store)
    elif (following and aware(following)) != entry.next_due:
        unannounced.append(
            _cursor(entry, now)
        )  # a beat of an older version has moved the cursor, or the entry was set aside


def _mark(seen: dict[int, list[Any] | None], now: datetime, store: LedgerStore) -> None:
    """Mark cursors as set aside, for people. An own column would be a migration beside older beats."""
    begun = [pk for pk, cursor in seen.items() if cursor is None]
    moment = {"updated_at": stored(now), "next_due_at": stored(ASIDE)}
    fresh = [BeatCursor(periodic_task_id=pk, schedule="", **moment) for pk in begun]
    _all(store).bulk_create(fresh, batch_size=BITE, ignore_conflicts=True)
    unmarked = [pk for pk, cursor in seen.items() if cursor and not is_aside(cursor[2])]
    for ids in _bites(unmarked):
        _all(store).filter(pk__in=ids).update(next_due_at=stored(ASIDE))


_SEEN = ("pk", "last_due_at", "schedule", "next_due_at")


def held(entries: Iterable[CursorEntry], *, now: datetime, store: LedgerStore) -> dict[int, BeatCursor]:
    """Lock the entries' cursors until the transaction ends; returns those that no other beat has moved.

    The lock is the first write of the transaction: so it is a lock on every database.
    """
    known = {entry.model.pk: entry for entry in entries}
    _all(store).filter(pk__in=known).update(updated_at=stored(now))
    cursors = {cursor.pk: cursor for cursor in _all(store).filter(pk__in=known)}
    return {pk: cursor for pk, cursor in cursors.items() if _is_of(known[pk], cursor)}


def held_alone(pk: int, store: LedgerStore) -> BeatCursor:
    """One cursor, locked until the transaction ends. An entry that no beat has read gets an empty cursor.

    Beat treats an empty cursor as that of an entry that was enabled again.
    """
    moment = stored(exact(database_now(store)))
    # One statement: on MySQL an ignored INSERT leaves each of several transactions with a shared lock, and
    # then none of them may write.
    _upsert([BeatCursor(periodic_task_id=pk, schedule="", updated_at=moment)], ["updated_at"], store)
    cursor: BeatCursor = _all(store).get(pk=pk)
    return cursor


def move(cursors: list[BeatCursor], store: LedgerStore) -> None:
    """Write how far beat has come. The cursors are locked, so each row exists."""
    # With plain values: with bulk_update, a CASE for each row and column, beat sends half as much.
    _upsert(cursors, _MOVED, store)


def _upsert(cursors: list[BeatCursor], fields: list[str], store: LedgerStore) -> None:
    named = store.connection.features.supports_update_conflicts_with_target
    _all(store).bulk_create(
        cursors,
        update_conflicts=True,
        update_fields=fields,
        unique_fields=["periodic_task_id"] if named else None,
    )


_MOVED = [
    "last_due_at",
    "last_digest",
    "next_due_at",
    "recent",
    "passed_over",
    "passed_over_at",
    "ran_at",
]


def _is_of(entry: CursorEntry, cursor: BeatCursor) -> bool:
    due = None if cursor.last_due_at is None else aware(cursor.last_due_at)
    return cursor.schedule == entry.fingerprint and due == entry.last_due_at


def read_again(entry: CursorEntry, store: LedgerStore) -> None:
    """Read the entry's cursor again, since another beat has moved it."""
    seen = _all(store).filter(pk=entry.model.pk).values_list("last_due_at", flat=True)[:1]
    for due in seen:
        entry.last_due_at = None if due is None else aware(due)


def _is_ahead(entry: CursorEntry, now: datetime) -> bool:
    ahead = entry.last_due_at is not None and entry.last_due_at > now + AHEAD and entry.grid.once is None
    if ahead:
        logger.warning(
            "%s: the clock was put back by more than a minute; the entry goes on from now", entry.name
        )
    return ahead


def _begin_anew(
    entry: CursorEntry, due: datetime | None, schedule: str, now: datetime, store: LedgerStore
) -> None:
    """Begin the cursor anew. A beat that slept over a change of leader must not set back the new leader's."""
    entry.last_due_at = entry.cursor_anew(now)
    _ = entry.next_due  # a schedule that raises does so before anything is written
    cursor = _cursor(entry, now)
    names = ("last_due_at", "schedule", "next_due_at", "updated_at")
    changes = {name: getattr(cursor, name) for name in names}
    if not _where(entry.model.pk, due, schedule, store).update(**changes):
        read_again(entry, store)


def _forget(gone: Iterable[int], read_at: datetime, store: LedgerStore) -> None:
    """Empty the cursors of disabled entries, which begin anew once enabled; delete those of deleted entries.

    A cursor that another beat has moved since the entries were read stays.
    """
    for ids in _bites(sorted(gone)):
        old = _all(store).filter(pk__in=ids, updated_at__lte=stored(read_at))
        old.exclude(schedule="").update(schedule="", next_due_at=None)
        left = PeriodicTask._default_manager.filter(pk__in=ids).values_list("pk", flat=True)
        old.filter(schedule="").exclude(pk__in=list(left)).delete()


def _bites(ids: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(ids), BITE):
        yield ids[start : start + BITE]


def _cursor(entry: CursorEntry, now: datetime) -> BeatCursor:
    following = entry.announced(entry.last_due_at)
    return BeatCursor(
        periodic_task_id=entry.model.pk,
        last_due_at=entry.last_due_at and stored(entry.last_due_at),
        next_due_at=following and stored(following),
        schedule=entry.fingerprint,
        updated_at=stored(now),
    )


def _where(pk: int, due: datetime | None, schedule: str, store: LedgerStore) -> Any:
    cursors = _all(store).filter(pk=pk, schedule=schedule)
    return cursors.filter(last_due_at__isnull=True) if due is None else cursors.filter(last_due_at=due)


def _all(store: LedgerStore) -> Any:
    return BeatCursor.objects.using(store.connection.alias)
