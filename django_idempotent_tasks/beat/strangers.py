"""Notices an ordinary beat that runs beside ours on the same periodic tasks."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from django.db.models import F, OuterRef, Subquery
from django_celery_beat.models import PeriodicTask

from ..ledger.stores import LedgerStore
from ..models import BeatCursor
from .clock import aware, stored
from .each import is_of_a_row, read_each
from .overview import NEWS, entries
from .recent import decode

logger = logging.getLogger("django_idempotent_tasks")


def notice(store: LedgerStore, *, since: datetime, now: datetime, ids: Collection[int] | None = None) -> int:
    """Record the entries that an ordinary beat has sent since this lead began (``since``); returns how many.

    Our beat writes ``last_run_at`` and the cursor in one transaction, and this function reads both in one
    statement: a time that our beat has not written is another scheduler's. An edit in the admin that was
    begun earlier may write an older time of our beat again, or none. Our next occurrence overwrites an
    ordinary beat's time, so call this function before, with ``ids``.
    """
    number = 0
    for pk, theirs, recent, known in _found(store, since, ids):
        if not _is_strange(aware(theirs), recent):
            continue
        number += 1
        _cursors(store).filter(pk=pk).update(stranger_at=stored(aware(theirs)))
        if known is None or aware(known) < now - NEWS:
            logger.warning(_WORDS, _name(pk, store), theirs)
    return number


def _is_strange(theirs: datetime, recent: str | None) -> bool:
    """Whether our beat did not write this time: it keeps all its times since the oldest that it keeps."""
    ours = {each.ran for each in decode(recent)}
    return bool(ours) and theirs not in ours and theirs > min(ours)


_WORDS = (
    "An ordinary beat also sent %s (at %s). Its messages have no key, so the task runs twice: stop every"
    " 'celery beat' that runs without the scheduler of this package"
)


def _found(store: LedgerStore, since: datetime, ids: Collection[int] | None) -> list[tuple[Any, ...]]:
    """Of each cursor: its id, a time that is not our last one, our times, when a stranger was last noticed.

    A row whose times Python cannot hold is left out.
    """
    last = PeriodicTask._default_manager.filter(pk=OuterRef("pk")).values("last_run_at")[:1]
    cursors = _cursors(store) if ids is None else _cursors(store).filter(pk__in=ids)
    others = cursors.annotate(theirs=Subquery(last)).exclude(theirs=F("ran_at"))
    found = others.filter(theirs__gt=stored(since), ran_at__isnull=False)
    columns = ("pk", "theirs", "recent", "stranger_at")
    try:
        return list(found.values_list(*columns))
    except Exception as error:
        if not is_of_a_row(error):
            raise

    def some(pks: Sequence[int]) -> list[tuple[Any, ...]]:
        return list(found.filter(pk__in=pks).values_list(*columns))

    return list(read_each(list(found.values_list("pk", flat=True)), some, lambda _pk, _error: None))


def _name(pk: int, store: LedgerStore) -> str:
    return str(entries(store.connection.alias).filter(pk=pk).values_list("name", flat=True).first())


def _cursors(store: LedgerStore) -> Any:
    return BeatCursor.objects.using(store.connection.alias)
