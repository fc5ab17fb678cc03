"""The sweeper's thread: tries to lead and then sweeps every 5 seconds, whether messages arrive or not."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from uuid import uuid4

from celery import Celery
from django.db import Error as DatabaseError

from .. import signals
from ..ledger import outage
from ..ledger.stores import LedgerStore, get_store
from ..ledger.sweeps import note_sweep
from ..models import SWEEPER
from .batches import Followed, Following
from .bite import Bite
from .early import Early
from .hours import count_hours
from .posting import BUDGET
from .prune import Tidied, Tidying
from .sweep import BITE, Sweep, Swept

logger = logging.getLogger("django_idempotent_tasks")

#: In seconds: the lease of the lead, between two tries to lead, between two sweeps, between two looks.
LEADER_LEASE = 10
POLL = 3.0
INTERVAL = 5.0
TICK = 0.5
#: Seconds that sending may take before the lead is renewed, and that following chunks and deleting may take.
SWEEP_TIME = 2.5
FOLLOW_TIME = 1.0
TIDY_TIME = 2.5
#: Seconds between two looks for a past hour that is not counted.
COUNT_EVERY = 60.0

# Taken by every bite and by every fork, so that no child inherits a connection in use.
_bite_lock = threading.Lock()
os.register_at_fork(
    before=_bite_lock.acquire, after_in_parent=_bite_lock.release, after_in_child=_bite_lock.release
)


class Sweeper:
    """Runs in a thread of a worker's parent process, or in its own process: any number may run, one leads.

    ``database`` is the ledger's alias, by default the one in the settings. While ``may_lead`` returns False
    the sweeper does not lead, and resigns if it does: a worker that takes no messages any more, or hangs
    in its shutdown, leaves the duty to another.
    """

    def __init__(
        self, app: Celery, *, database: str | None = None, may_lead: Callable[[], bool] = lambda: True
    ) -> None:
        self.app = app
        self.database = database
        self.may_lead = may_lead
        self.holder = f"{socket.gethostname()[:60]}:{os.getpid()}:{uuid4().hex[:12]}"
        self._stopped = threading.Event()
        self._leads = False
        self._count_at = 0.0
        self._tidying = Tidying()
        self._following = Following(app)
        self._early = Early(app)
        self._bite, self._budget = Bite(BITE), Bite(BUDGET)
        self._thread = threading.Thread(target=self._run, name="idempotent-sweeper", daemon=True)

    def start(self) -> None:
        """Start the thread, which needs neither database nor broker yet."""
        self._thread.start()

    def stop(self, *, timeout: float = 3.0) -> None:
        """Stop the thread, and resign at once so that no other worker has to wait for the lease."""
        self.end()
        self._thread.join(timeout)
        self._resign()

    def run(self) -> None:
        """Lead and sweep in the calling thread until another thread calls :meth:`end`; then resign."""
        try:
            self._run()
        finally:
            self._resign()

    def end(self) -> None:
        """Ask the sweeper to end, without waiting. Not for a signal handler of the thread that sweeps."""
        self._stopped.set()

    def _resign(self) -> None:
        if self._leads:
            self._leads = False
            self._guarded(lambda store: store.resign(SWEEPER, holder=self.holder))

    def _run(self) -> None:
        poll = sweep = time.monotonic()
        while not self._stopped.wait(TICK):
            now = time.monotonic()
            if not self.may_lead():
                self._resign()
            if now >= poll:
                poll = now + POLL
                self._leads = self._lead()
            if self._leads and now >= sweep:
                behind = self._sweep()
                sweep = now if behind else now + INTERVAL

    def _lead(self) -> bool:
        led = bool(self._guarded(self._try_to_lead))
        if led and not self._leads:
            signals.leader_changed.send_robust(sender=None, name=SWEEPER, holder=self.holder)
        return led

    def _try_to_lead(self, store: LedgerStore) -> bool:
        outage.note(store)  # also where this sweeper does not lead: that is no outage of the ledger
        return self.may_lead() and store.lead(SWEEPER, holder=self.holder, lease=LEADER_LEASE)

    def _sweep(self) -> bool:
        """Follow chunks, hasten, free, send, delete and count; True if there was more to do than time."""
        self._follow_chunks()
        self._guarded(self._early.go_on)
        behind = self._free_and_send()
        behind |= self._tidy()
        if time.monotonic() >= self._count_at:
            self._count_at = time.monotonic() + COUNT_EVERY
            self._guarded(count_hours)
        return behind

    def _follow_chunks(self) -> None:
        """Before messages are sent: the callbacks of batches are among them.

        The next sweep goes on where this one breaks off: a million chunks that wait are no hurry.
        """
        end = time.monotonic() + FOLLOW_TIME
        while not self._stopped.is_set():
            followed = self._guarded(self._following.go_on)
            if not isinstance(followed, Followed) or not followed.goes_on:
                return
            if time.monotonic() >= end:
                break
        self._guarded(self._following.look_at_batches)

    def _free_and_send(self) -> bool:
        sweep, end = Sweep(self.app, self._bite, self._budget), time.monotonic() + SWEEP_TIME
        goes_on, swept = True, None
        while goes_on and not self._stopped.is_set() and time.monotonic() < end:
            swept = self._guarded(lambda store: sweep.go_on(store, calm=outage.note))
            goes_on = isinstance(swept, Swept) and swept.goes_on
        if sweep.has_left:
            self._guarded(sweep.give_back)
        if swept is not None:
            self._guarded(note_sweep)
        return goes_on

    def _tidy(self) -> bool:
        """Delete for at most half of the time, and leave the other half to claims."""
        tidying, end = self._tidying, time.monotonic() + TIDY_TIME
        while not self._stopped.is_set():
            done = self._guarded(tidying.go_on)
            if not isinstance(done, Tidied) or not done.goes_on:
                return False
            if time.monotonic() >= end:
                break
            self._stopped.wait(done.pause)
        return True

    def _guarded(self, work: object) -> object:
        """Do one bite on a connection of its own, under the lock that a fork takes; log errors."""
        with _bite_lock:
            try:
                with get_store(self.database).side_connection() as store:
                    return work(store)  # type: ignore[operator]
            except DatabaseError as error:
                logger.warning("The sweeper cannot reach the ledger: %s", error)
            except Exception:
                logger.exception("A sweep failed; the next one begins anew")
        return None
