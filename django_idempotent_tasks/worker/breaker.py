"""Keeps a slow or absent ledger from blocking the event loop of a worker's parent process."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

from django.db import Error as DatabaseError

from ..conf import settings
from ..ledger.stores import LedgerStore, get_store

logger = logging.getLogger("django_idempotent_tasks")

#: Seconds after a failed write in which the parent writes nothing: the sweeper frees the keys instead.
PAUSE = 30.0
#: Seconds without use after which the connection is closed, and after which a query tests it before use.
IDLE = 5.0
ASK_AFTER = 0.5


class Breaker:
    """Skips the parent's writes for a while after one has failed: the next would block it too."""

    until = 0.0

    def guard(self, work: Callable[[], object]) -> None:
        """Call ``work`` unless a write failed lately; log its errors and raise none."""
        if time.monotonic() < self.until:
            return
        try:
            work()
        except Exception as error:  # noqa: BLE001  the worker must go on whatever this raises
            self.until = time.monotonic() + PAUSE
            logger.warning("The parent could not end a claim (%r); its lease runs out instead", error)


class Kept:
    """The parent's own database connection, closed when it is idle and before every fork.

    It stays open between uses only after :meth:`begin`, where a worker's event loop calls
    :meth:`close_idle` again and again. Elsewhere each use opens and closes a connection.
    """

    ask_after = ASK_AFTER

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._is_kept = False
        self._stack = ExitStack()
        self._store: LedgerStore | None = None
        self._alias = ""
        self._used_at = 0.0

    def begin(self) -> None:
        """Keep the connection open between uses from now on."""
        self._is_kept = True

    def end(self) -> None:
        """Close the connection, and open one for each use from now on."""
        with self._lock:
            self._is_kept = False
            self._close()

    def use(self, work: Callable[[LedgerStore], None]) -> None:
        """Call ``work`` with the connection, and close it if that fails. Raises what ``work`` raises."""
        with self._lock:
            try:
                work(self._opened())
            except BaseException:
                self._close()
                raise
            self._used_at = time.monotonic()
            if not self._is_kept:
                self._close()

    def close_idle(self, *, after: float = IDLE) -> None:
        """Close the connection if nobody has used it for ``after`` seconds."""
        with self._lock:
            if self._store is not None and time.monotonic() - self._used_at >= after:
                self._close()

    def descriptor(self) -> int | None:
        """The connection's file descriptor on PostgreSQL; None where none is open."""
        return None if self._store is None else int(self._store.connection.connection.fileno())

    def before_fork(self) -> None:
        """Close the connection, in use or not, so that no child inherits it."""
        self._lock.acquire()
        with suppress(Exception):
            self._close()

    def after_fork(self) -> None:
        """Let threads use the connection again."""
        self._lock.release()

    def _opened(self) -> LedgerStore:
        alias = settings().database
        if self._store is not None and (alias != self._alias or not self._answers(self._store)):
            self._close()
        if self._store is None:
            self._store = self._stack.enter_context(get_store().side_connection())
            # The thread that forks closes the connection, whichever opened it.
            self._store.connection.inc_thread_sharing()
            self._alias = alias
        return self._store

    def _answers(self, store: LedgerStore) -> bool:
        if time.monotonic() - self._used_at < self.ask_after:
            return True
        try:
            with store.connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        except DatabaseError:
            return False
        return True

    def _close(self) -> None:
        stack, self._stack, self._store = self._stack, ExitStack(), None
        stack.close()


breaker = Breaker()
kept = Kept()
os.register_at_fork(before=kept.before_fork, after_in_parent=kept.after_fork, after_in_child=kept.after_fork)


def on_own_connection(work: Callable[[LedgerStore], None]) -> None:
    """Call ``work`` with the parent's own connection, which no child shares."""
    kept.use(work)
