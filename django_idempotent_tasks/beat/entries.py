"""The enabled periodic tasks, read again in a moment: only those that were changed are made anew."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from celery import Celery
from django_celery_beat.models import PeriodicTask

from .entry import CursorEntry

logger = logging.getLogger("django_idempotent_tasks")

#: Periodic tasks of one query.
BITE = 500
#: What beat writes itself, and when a row was saved: no change.
_WRITTEN = frozenset({"last_run_at", "total_run_count", "date_changed"})
_SCHEDULES = ("interval", "crontab", "solar", "clocked")


class Entries:
    """What one beat knows of the periodic tasks."""

    def __init__(self, app: Celery) -> None:
        self.app = app
        self._rows: dict[int, tuple[Any, ...]] = {}
        self._entries: dict[int, CursorEntry] = {}

    def read(self) -> list[CursorEntry]:
        """Every enabled entry, as its row is now; one that cannot be read is logged and left out."""
        rows = {row[0]: row for row in PeriodicTask.objects.filter(enabled=True).values_list(*_columns())}
        changed = [pk for pk, row in rows.items() if self._rows.get(pk) != row]
        for pk in self._entries.keys() - rows.keys():
            del self._entries[pk]
        for model in _models(changed):
            self._make(model)
        self._rows = rows
        return list(self._entries.values())

    def forget(self, entry: CursorEntry) -> None:
        """One that was disabled here: enabled again it is another one, whatever its row says."""
        self._rows.pop(entry.model.pk, None)
        self._entries.pop(entry.model.pk, None)

    def by_name(self) -> dict[str, CursorEntry]:
        """As Celery's schedulers show their schedule."""
        return {entry.name: entry for entry in self._entries.values()}

    def _make(self, model: Any) -> None:
        self._entries.pop(model.pk, None)
        try:
            entry = CursorEntry(model, app=self.app)
        except Exception:
            logger.exception(
                "Beat cannot read the periodic task %r; it is left out until it is changed", model.name
            )
            return
        if entry.model.enabled:
            self._entries[model.pk] = entry


def _columns() -> Iterator[str]:
    """The primary key first, then all that an entry is made of."""
    meta = PeriodicTask._meta
    yield meta.pk.name
    yield from (field.attname for field in meta.concrete_fields if field.name not in _WRITTEN)
    for name in _SCHEDULES:
        related = meta.get_field(name).related_model._meta
        yield from (f"{name}__{field.name}" for field in related.concrete_fields if not field.primary_key)


def _models(ids: list[int]) -> Iterator[Any]:
    for start in range(0, len(ids), BITE):
        yield from PeriodicTask.objects.enabled().filter(pk__in=ids[start : start + BITE])
