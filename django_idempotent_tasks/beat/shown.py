"""Reads periodic tasks for the admin, and says why beat cannot read one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from celery import Celery

from ..ledger.moments import exact
from ..models import BeatCursor
from .clock import aware
from .each import is_of_a_row, read_each
from .overview import entries, is_aside
from .readable import problem_of

_SCHEDULES = ("interval", "crontab", "solar", "clocked")
#: The columns that are read of an entry whose other columns cannot be read.
_LEAST = ("pk", "name", "task", "enabled", "one_off", "description", "total_run_count")


def periodic_tasks(rows: Any, alias: str) -> list[Any]:
    """The periodic tasks of a query, in its order; an unreadable task with few columns, such as its name."""
    try:
        return list(rows.select_related(*_SCHEDULES))
    except Exception as error:
        if not is_of_a_row(error):
            raise
    ids = list(rows.values_list("pk", flat=True))
    least: list[int] = []

    def some(pks: Sequence[int]) -> list[Any]:
        return list(entries(alias).select_related(*_SCHEDULES).filter(pk__in=pks))

    found = {task.pk: task for task in read_each(ids, some, lambda pk, _error: least.append(pk))}
    kept = [*_LEAST, *(f"{name}_id" for name in _SCHEDULES)]
    found |= {task.pk: task for task in entries(alias).filter(pk__in=least).only(*kept)}
    return [found[pk] for pk in ids if pk in found]


def problem_with(task: Any, cursor: BeatCursor, *, app: Celery, now: datetime) -> str:
    """Why beat does not send an enabled entry, with the remedy; empty where it does."""
    from .entry import CursorEntry  # noqa: PLC0415  it needs django-celery-beat

    if not task.enabled:
        return ""
    try:
        entry = CursorEntry(task, app=app)
        last = cursor.last_due_at
        entry.grid.after(entry.cursor_anew(exact(now)) if last is None else aware(last))
    except Exception as error:
        if not is_of_a_row(error):
            raise
        return problem_of(error, task.crontab_id)
    if is_aside(cursor.next_due_at):
        return "The host of beat cannot read this entry, but this host can: beat's log there says why."
    return ""
