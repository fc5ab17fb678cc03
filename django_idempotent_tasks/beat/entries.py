"""Keeps the enabled periodic tasks in memory: a new reading rebuilds only entries whose row changed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

from celery import Celery
from django.db.models import ExpressionWrapper, F, TextField
from django_celery_beat.models import PeriodicTask

from .each import is_of_a_row, read_each
from .entry import CursorEntry
from .readable import Aside, problem_of

logger = logging.getLogger("django_idempotent_tasks")

#: Columns that beat writes itself, and the time of saving: their change is no change of the entry.
_WRITTEN = frozenset({"last_run_at", "total_run_count", "date_changed"})
_SCHEDULES = ("interval", "crontab", "solar", "clocked")


class Entries:
    """The periodic tasks that one beat has read."""

    def __init__(self, app: Celery, *, is_logged: bool = True) -> None:
        self.app = app
        #: Entries that cannot be read, by id: each problem is logged once.
        self.aside: dict[int, Aside] = {}
        self._is_logged = is_logged
        self._rows: dict[int, tuple[Any, ...]] = {}
        self._entries: dict[int, CursorEntry] = {}

    def read(self) -> list[CursorEntry]:
        """Every enabled entry, as its row is now; an entry that cannot be read is set aside.

        Raises what the database raises for another reason than a row's content.
        """
        unread: dict[int, Exception] = {}
        rows = {row[0]: row for row in _rows(unread)}
        changed = [pk for pk, row in rows.items() if self._rows.get(pk) != row]
        self._keep_only(rows.keys() | unread.keys())
        for model in read_each(changed, _models, unread.__setitem__):
            self._make(model)
        self._rows = rows
        for pk, error in unread.items():
            self._set_aside(pk, error)
        return list(self._entries.values())

    def forget(self, entry: CursorEntry) -> None:
        """Forget an entry that beat disabled, so that enabling it again starts a new schedule."""
        self._rows.pop(entry.model.pk, None)
        self._entries.pop(entry.model.pk, None)

    def by_name(self) -> dict[str, CursorEntry]:
        """The entries by name, as Celery's schedulers show their schedule."""
        return {entry.name: entry for entry in self._entries.values()}

    def has_time(self, entry: CursorEntry) -> None:
        """Take an entry back whose next time can be computed again."""
        self.aside.pop(entry.model.pk, None)

    def has_no_time(self, entry: CursorEntry, error: Exception) -> None:
        """Set an entry aside whose next time cannot be computed; the next reading tries again."""
        pk, crontab = entry.model.pk, entry.model.crontab_id
        self._note(Aside(pk, entry.name, problem_of(error, crontab)))

    def _keep_only(self, known: Any) -> None:
        for kept in (self._entries, self.aside):
            for pk in kept.keys() - known:
                del kept[pk]

    def _make(self, model: Any) -> None:
        pk = model.pk
        self._entries.pop(pk, None)
        try:
            entry = CursorEntry(model, app=self.app)
        except Exception as error:
            if not is_of_a_row(error):
                raise
            self._note(Aside(pk, model.name, problem_of(error, model.crontab_id)))
            return
        if entry.model.enabled:
            self._entries[pk] = entry
        self.aside.pop(pk, None)

    def _set_aside(self, pk: int, error: Exception) -> None:
        """Set an entry aside whose columns cannot be read; a query of its own reads its name and crontab."""
        self._entries.pop(pk, None)
        name, crontab = _named(pk)
        self._note(Aside(pk, name, problem_of(error, crontab)))

    def _note(self, aside: Aside) -> None:
        if self._is_logged and self.aside.get(aside.pk) != aside:
            logger.error(
                "Beat cannot read the periodic task %r and leaves it out; the others go on. %s",
                aside.name,
                aside.problem,
            )
        self.aside[aside.pk] = aside


def _rows(unread: dict[int, Exception]) -> list[tuple[Any, ...]]:
    """All rows in one query; in several where a row makes that query raise."""
    enabled, columns = PeriodicTask.objects.filter(enabled=True), list(_columns())
    try:
        return list(enabled.values_list(*columns))
    except Exception as error:
        if not is_of_a_row(error):
            raise
    ids = list(enabled.values_list("pk", flat=True))

    def some(pks: Sequence[int]) -> list[tuple[Any, ...]]:
        return list(enabled.filter(pk__in=pks).values_list(*columns))

    return list(read_each(ids, some, unread.__setitem__))


def _columns() -> Iterator[Any]:
    """The primary key, then all columns that an entry is made of.

    A field that converts its column (a name into a time zone) may raise, so its column is read as text:
    that is enough to see a change.
    """
    meta = PeriodicTask._meta
    yield meta.pk.name
    yield from (_plain(field.attname, field) for field in meta.concrete_fields if field.name not in _WRITTEN)
    for name in _SCHEDULES:
        related = meta.get_field(name).related_model._meta
        own = (field for field in related.concrete_fields if not field.primary_key)
        yield from (_plain(f"{name}__{field.name}", field) for field in own)


def _plain(path: str, field: Any) -> Any:
    has_own_type = hasattr(field, "from_db_value")
    return ExpressionWrapper(F(path), output_field=TextField()) if has_own_type else path


def _models(ids: Sequence[int]) -> list[Any]:
    return list(PeriodicTask.objects.filter(enabled=True, pk__in=ids).select_related(*_SCHEDULES))


def _named(pk: int) -> tuple[str, int | None]:
    """The name and the crontab of an entry whose other columns cannot be read."""
    try:
        found = PeriodicTask.objects.filter(pk=pk).values_list("name", "crontab_id").first()
    except Exception as error:
        if not is_of_a_row(error):
            raise
        found = None
    return found or (f"#{pk}", None)
