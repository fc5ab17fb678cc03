"""The scheduler of ``celery beat``, of which any number may run: each occurrence is sent once.

``celery beat -S django_idempotent_tasks.schedulers:SingleInstanceDatabaseScheduler``
"""

from __future__ import annotations

import heapq
import logging
import os
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import uuid4

from django.db import Error as DatabaseError
from django.db import OperationalError, ProgrammingError

from . import signals
from .beat import words
from .beat.checks import beat_problem
from .exceptions import ConfigurationError
from .ledger.moments import database_now
from .ledger.stores import LedgerStore, get_store
from .models import BEAT

_problem = beat_problem()
if _problem is not None:
    raise ConfigurationError(_problem)

from django_celery_beat.schedulers import DatabaseScheduler  # noqa: E402  it needs to be installed

from .beat.clock import Clock  # noqa: E402
from .beat.cursors import place  # noqa: E402
from .beat.dispatch import Work, disable, dispatch, due_work  # noqa: E402
from .beat.duty import LEASE, PACE, READ_AGAIN, STANDBY  # noqa: E402
from .beat.entries import Entries  # noqa: E402
from .beat.entry import CursorEntry  # noqa: E402
from .beat.standbys import duty_of, forget, note  # noqa: E402
from .beat.strangers import notice  # noqa: E402

logger = logging.getLogger("django_idempotent_tasks")

#: Seconds after which a tick stops sending, to renew its lease.
LONGEST_TICK = 1.0
#: Seconds to wait after an error; and the time until an entry that cannot be sent is tried again.
REST = 2.0
AGAIN = timedelta(seconds=30)
#: How many entries, and how many occurrences, one transaction holds: the store's locks bound the latter.
BITE = 50
MOST = 500


class SingleInstanceDatabaseScheduler(DatabaseScheduler):  # type: ignore[misc]  # it ships no types
    """Start as many as you like: one leads, the others stand by, and each occurrence is sent once.

    The lead only saves work. An occurrence is sent once because of its key: the periodic task and its
    nominal time, written in one transaction with the cursor that the next time is computed from.
    """

    Entry = CursorEntry

    def __init__(self, app: Any, *args: Any, **kwargs: Any) -> None:
        self.holder = f"{socket.gethostname()[:60]}:{os.getpid()}:{uuid4().hex[:12]}"
        self._entries = Entries(app)
        self._clock = Clock()
        self._leads = self._is_set_up = False
        self._renew_at = self._read_at = self._stands_by_until = 0.0
        self._led_since = datetime.max.replace(tzinfo=UTC)
        self._due: list[tuple[datetime, int, CursorEntry]] = []
        self._order = count()
        self._marked_at: datetime | None = None
        super().__init__(app, *args, **kwargs)

    def tick(self, *_args: Any, **_kwargs: Any) -> float:
        """Send what is due if this beat leads; returns the seconds until the next tick. Never raises."""
        try:
            return min(self._tick(), float(self.max_interval))
        except DatabaseError as error:
            remedy = "is it migrated? " if isinstance(error, ProgrammingError) else ""
            logger.warning("Beat cannot use the database (%s); %sit goes on trying", error, remedy)
        except Exception:
            logger.exception("A tick of beat failed; the next tick begins anew")
        self._leads, self._renew_at = False, 0.0
        get_store().connection.close()
        return REST

    def close(self) -> None:
        """Give up the lead at once. A signal handler may call this, amid a statement of this process."""
        if self._leads or self._stands_by_until:
            duty = BEAT if self._leads else duty_of(self.holder)
            self._leads, self._stands_by_until = False, 0.0
            try:
                with get_store().side_connection() as store:
                    store.resign(duty, holder=self.holder)
            except DatabaseError:
                logger.warning("Beat could not give up its lease, which ends within %d s", LEASE)
        super().close()

    def setup_schedule(self) -> None:
        """Do nothing yet: the leader's first tick does it, so that a database that is down only delays it."""

    def update_from_dict(self, mapping: dict[str, dict[str, Any]]) -> None:
        """Write the entries of ``beat_schedule``; log words for our scheduler where it does not read them."""
        for name, entry in mapping.items():
            for problem in words.unread(entry):
                logger.error("Entry %r of beat_schedule: %s", name, problem)
        super().update_from_dict({name: words.without_misplaced(entry) for name, entry in mapping.items()})

    @property
    def schedule(self) -> dict[str, CursorEntry]:
        """The entries as they were last read, by name."""
        return self._entries.by_name()

    def sync(self) -> None:
        """Do nothing: this scheduler keeps nothing in memory that must be written."""

    def schedule_changed(self) -> bool:
        """Whether an entry was saved or deleted since the last call. Raises what the database raises."""
        before, self._marked_at = self._marked_at, self.Changes.last_change()
        return before != self._marked_at

    def _tick(self) -> float:
        store = get_store()
        if not _answers(store):  # the connection was cut since the last tick
            store.connection.close()
        if not self._lead(store):
            self._stand_by(store)
            return STANDBY
        if not self._is_set_up:
            super().setup_schedule()  # it only logs what the database raises
            self._is_set_up = _answers(store)
        self._read(store)
        now, end = self._clock.now(), time.monotonic() + LONGEST_TICK
        while self._due and self._due[0][0] <= now:
            self._carry_out(self._pop(now), now, store)
            if time.monotonic() > end:
                return 0
        return min((self._due[0][0] - now).total_seconds(), PACE) if self._due else PACE

    def _lead(self, store: LedgerStore) -> bool:
        """Take or renew the lease, and read the database's clock."""
        now = time.monotonic()
        if self._leads and now < self._renew_at:
            return True
        leads = store.lead(BEAT, holder=self.holder, lease=LEASE)
        back = self._clock.set(database_now(store))
        if leads and not self._leads:
            logger.info("Beat %s leads", self.holder)
            self._led_since = self._clock.now()
            forget(store, holder=self.holder)
            self._stands_by_until = 0.0
            signals.leader_changed.send_robust(sender=None, name=BEAT, holder=self.holder)
        if back.total_seconds() > READ_AGAIN or not self._leads:
            self._read_at = 0.0
        self._leads, self._renew_at = leads, now + PACE
        return leads

    def _stand_by(self, store: LedgerStore) -> None:
        """Renew the row that shows people this standby."""
        now = time.monotonic()
        if now >= self._stands_by_until:
            note(store, holder=self.holder)
            self._stands_by_until = now + PACE

    def _read(self, store: LedgerStore) -> None:
        now = time.monotonic()
        if not self.schedule_changed() and now < self._read_at:
            return
        moment = self._clock.now()
        notice(store, since=self._led_since, now=moment)
        entries = self._entries.read()
        failed = place(entries, now=moment, store=store, aside=self._entries.aside)
        self._read_at = now + READ_AGAIN
        self._due = []
        for entry, error in failed:
            self._entries.has_no_time(entry, error)
        without = {entry.model.pk for entry, _error in failed}
        for entry in entries:
            if entry.model.pk not in without:
                self._begin(entry, store)

    def _begin(self, entry: CursorEntry, store: LedgerStore) -> None:
        self._entries.has_time(entry)
        if entry.has_run_once and entry.is_new:
            disable(entry, store)
            self._entries.forget(entry)
        else:
            self._push(entry)

    def _push(self, entry: CursorEntry, *, not_before: datetime | None = None) -> None:
        """Put an entry on the heap by its next time; set it aside if that time cannot be computed."""
        if not entry.model.enabled:
            self._entries.forget(entry)
            return
        try:
            due = entry.next_due
        except Exception as error:  # noqa: BLE001  as many as there are kinds of schedules
            self._entries.has_no_time(entry, error)
            return
        if due is not None:
            when = due if not_before is None else max(due, not_before)
            heapq.heappush(self._due, (when, next(self._order), entry))

    def _pop(self, now: datetime) -> list[CursorEntry]:
        entries: list[CursorEntry] = []
        while self._due and self._due[0][0] <= now and len(entries) < BITE:
            entries.append(heapq.heappop(self._due)[2])
        return entries

    def _carry_out(self, entries: list[CursorEntry], now: datetime, store: LedgerStore) -> None:
        works = [work for entry in entries if (work := self._work_of(entry, now, store)) is not None]
        for some in _bites(works):
            try:
                self._dispatch(some, now, store)
            except Exception:
                if not _answers(store):
                    raise
                for work in some:  # one of the entries is to blame
                    self._dispatch_alone(work, now, store)

    def _work_of(self, entry: CursorEntry, now: datetime, store: LedgerStore) -> Work | None:
        try:
            work = due_work(entry, now=now, store=store)
        except DatabaseError:
            raise
        except Exception:
            logger.exception("Beat cannot send %s; it tries again soon", entry.name)
            self._push(entry, not_before=now + AGAIN)
            return None
        if work is None:
            self._push(entry, not_before=now + AGAIN)
        return work

    def _dispatch(self, works: list[Work], now: datetime, store: LedgerStore) -> None:
        notice(store, since=self._led_since, now=now, ids=[work.entry.model.pk for work in works])
        # Through apply_entry: instruments know beat by this method of Celery's.
        dispatch(works, now=now, store=store, apply=lambda entry, to: self.apply_entry(entry, producer=to))
        for work in works:
            if work.written:
                logger.info("Sent %d occurrence(s) of %s", len(work.written), work.entry.name)
            self._push(work.entry, not_before=now)

    def _dispatch_alone(self, work: Work, now: datetime, store: LedgerStore) -> None:
        try:
            self._dispatch([work], now, store)
        except Exception as error:
            if not _answers(store):
                raise
            logger.exception("Beat cannot record %s; it tries again soon", work.entry.name)
            soon = isinstance(error, OperationalError)  # a lock, most likely
            self._push(work.entry, not_before=now + (timedelta(seconds=REST) if soon else AGAIN))


def _bites(works: list[Work]) -> Iterator[list[Work]]:
    bite: list[Work] = []
    for work in works:
        if bite and sum(len(each.occurrences) for each in (*bite, work)) > MOST:
            yield bite
            bite = []
        bite.append(work)
    if bite:
        yield bite


def _answers(store: LedgerStore) -> bool:
    connection = store.connection
    return connection.connection is not None and bool(connection.is_usable())
