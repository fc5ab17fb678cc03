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
    """Note the entries that somebody else has sent since ``since``, the beginning of this lead; how many.

    Ours writes ``last_run_at`` and the cursor in one transaction, and this reads both in one statement: a
    time that ours has not written is another scheduler's. An edit in the admin that was begun before may
    write an older one of ours again, or none. A stranger's is seen until ours sends the next occurrence,
    so ask before that, with ``ids``.
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
    """Whether it is none of ours: of those since the oldest that is kept all are kept."""
    ours = {each.ran for each in decode(recent)}
    return bool(ours) and theirs not in ours and theirs > min(ours)


_WORDS = (
    "%s was also sent by an ordinary beat (at %s), whose messages have no key, so that the task runs twice:"
    " stop every 'celery beat' that runs without our scheduler"
)


def _found(store: LedgerStore, since: datetime, ids: Collection[int] | None) -> list[tuple[Any, ...]]:
    """The cursor's id, a time that is not our last one, ours, and when another scheduler was noticed last.

    A row whose times Python cannot hold tells of nobody.
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
