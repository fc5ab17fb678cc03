"""``celery beat -S django_idempotent_tasks.schedulers:SingleInstanceDatabaseScheduler``."""

from __future__ import annotations

import heapq
import logging
import os
import socket
import time
from datetime import datetime, timedelta
from itertools import count
from typing import Any
from uuid import uuid4

from django.db import Error as DatabaseError
from django_celery_beat.schedulers import DatabaseScheduler

from . import signals
from .beat.cursors import place
from .beat.dispatch import dispatch
from .beat.entry import CursorEntry
from .moments import database_now
from .stores import LedgerStore, get_store

logger = logging.getLogger("django_idempotent_tasks")

#: The duty's name in the leader table, and its lease and pace in seconds.
DUTY = "beat"
LEASE = 15
PACE = 5.0
#: Seconds after which the entries are read again, whatever the change marker says: QuerySet.update() and
#: SQL do not set it.
READ_AGAIN = 60.0
#: Seconds that one tick sends before it looks at its lease again.
LONGEST_TICK = 1.0
#: Seconds of rest after the database did not answer.
REST = 2.0


class SingleInstanceDatabaseScheduler(DatabaseScheduler):  # type: ignore[misc]  # it ships no types
    """Start as many as you like: one leads, the others stand by, and each occurrence is sent once.

    Leading is an economy. What keeps an occurrence single is its key: the periodic task and its
    nominal time, claimed together with the cursor that the next time is computed from.
    """

    Entry = CursorEntry

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        self._clock = _Clock()
        self._leads = False
        self._renew_at = self._read_at = 0.0
        self._due: list[tuple[datetime, int, CursorEntry]] = []
        self._order = count()
        super().__init__(*args, **kwargs)

    def tick(self, *_args: Any, **_kwargs: Any) -> float:
        """Send what is due, if this beat leads; seconds until the next look. Never raises for a database."""
        try:
            return self._tick()
        except DatabaseError as error:
            logger.warning(
                "Beat cannot reach the database (%s); it gives up the lead and goes on trying", error
            )
            self._leads, self._renew_at = False, 0.0
            _store().connection.close()
            return REST

    def close(self) -> None:
        """Hand the lead over at once."""
        try:
            _store().resign(DUTY, holder=self.holder)
        except DatabaseError:
            logger.warning("Beat could not give up its lead; a standby takes over within %d s", LEASE)
        super().close()

    def enabled_models_qs(self) -> Any:
        """Every enabled entry: one that is left out because its hour is far is late after an outage."""
        return self.Model.objects.enabled()

    def sync(self) -> None:
        """Nothing is kept in memory that would have to be written."""

    def _tick(self) -> float:
        store = _store()
        if not self._lead(store):
            return min(PACE, self.max_interval)
        self._read(store)
        now, end = self._clock.now(), time.monotonic() + LONGEST_TICK
        while self._due and self._due[0][0] <= now:
            self._carry_out(heapq.heappop(self._due)[2], now, store)
            if time.monotonic() > end:
                return 0
        if not self._due:
            return float(min(PACE, self.max_interval))
        return float(min((self._due[0][0] - now).total_seconds(), PACE, self.max_interval))

    def _lead(self, store: LedgerStore) -> bool:
        """Take or renew the lease; the database's clock is read along with it."""
        now = time.monotonic()
        if self._leads and now < self._renew_at:
            return True
        leads = store.lead(DUTY, holder=self.holder, lease=LEASE)
        self._clock.set(database_now(store))
        if leads and not self._leads:
            self._read_at = 0.0
            signals.leader_changed.send_robust(sender=None, name=DUTY, holder=self.holder)
        self._leads, self._renew_at = leads, now + PACE
        return leads

    def _read(self, store: LedgerStore) -> None:
        now = time.monotonic()
        if not self.schedule_changed() and now < self._read_at:
            return
        self._schedule = self.all_as_schedule()
        self._read_at = now + READ_AGAIN
        place(self._schedule.values(), now=self._clock.now(), store=store)
        self._due = []
        for entry in self._schedule.values():
            self._push(entry)

    def _push(self, entry: CursorEntry) -> None:
        """Into the heap by its next time; an entry whose times cannot be computed must not stop the others."""
        try:
            due = entry.grid.after(entry.last_due_at) if entry.model.enabled else None
        except Exception:
            logger.exception("Beat cannot compute the next time of %s; it is left out", entry.name)
            return
        if due is not None:
            heapq.heappush(self._due, (due, next(self._order), entry))

    def _carry_out(self, entry: CursorEntry, now: datetime, store: LedgerStore) -> None:
        try:
            sent = dispatch(entry, now=now, store=store)
        except DatabaseError:
            raise
        except Exception:
            logger.exception("Beat cannot send %s; it is looked at again with the next reading", entry.name)
            return
        if sent:
            logger.info("Sent %d occurrence(s) of %s", sent, entry.name)
        self._push(entry)


class _Clock:
    """The database's clock, carried on between two looks: a step of the host's clock changes nothing."""

    def __init__(self) -> None:
        self._base: datetime | None = None
        self._at = 0.0

    def set(self, now: datetime) -> None:
        """What the database says now."""
        self._base, self._at = now, time.monotonic()

    def now(self) -> datetime:
        """The database's time."""
        if self._base is None:
            msg = "The clock was not set."
            raise RuntimeError(msg)
        return self._base + timedelta(seconds=time.monotonic() - self._at)


def _store() -> LedgerStore:
    return get_store()
