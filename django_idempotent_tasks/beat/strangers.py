"""Notices an ordinary beat that runs beside ours on the same periodic tasks."""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db.models import F, OuterRef, Subquery
from django_celery_beat.models import PeriodicTask

from ..models import BeatCursor
from ..stores import LedgerStore
from .clock import aware, stored
from .overview import NEWS, entries

logger = logging.getLogger("django_idempotent_tasks")


def notice(store: LedgerStore, *, since: datetime, now: datetime, ids: Collection[int] | None = None) -> int:
    """Note the entries that somebody else has sent since ``since``, the beginning of this lead; how many.

    Ours writes ``last_run_at`` and the cursor in one transaction, and this reads both in one statement: a
    later ``last_run_at`` is another scheduler's. An edit in the admin that was begun before writes an
    older one, or none. It is seen until ours sends the next occurrence, so ask before that, with ``ids``.
    """
    found = list(_found(store, since, ids))
    for pk, theirs, known in found:
        _cursors(store).filter(pk=pk).update(stranger_at=theirs)
        if known is None or aware(known) < now - NEWS:
            logger.warning(_WORDS, _name(pk, store), theirs)
    return len(found)


_WORDS = (
    "%s was also sent by an ordinary beat (at %s), whose messages have no key, so that the task runs twice:"
    " stop every 'celery beat' that runs without our scheduler"
)


def _found(store: LedgerStore, since: datetime, ids: Collection[int] | None) -> Any:
    """The cursor's id, when another scheduler has sent its entry, and when one was noticed last."""
    last = PeriodicTask._default_manager.filter(pk=OuterRef("pk")).values("last_run_at")[:1]
    cursors = _cursors(store) if ids is None else _cursors(store).filter(pk__in=ids)
    later = cursors.annotate(theirs=Subquery(last)).filter(theirs__gt=F("ran_at"))
    return later.filter(theirs__gt=stored(since)).values_list("pk", "theirs", "stranger_at")


def _name(pk: int, store: LedgerStore) -> str:
    return str(entries(store.connection.alias).filter(pk=pk).values_list("name", flat=True).first())


def _cursors(store: LedgerStore) -> Any:
    return BeatCursor.objects.using(store.connection.alias)
