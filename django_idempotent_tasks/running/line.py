"""Opens the heartbeat's own database connection: for each beat, or for as long as the worker lives."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from django.db import Error as DatabaseError

from ..ledger.stores import LedgerStore, get_store


class HeartConnection:
    """For one thread at a time. A kept connection that fails is closed, and the next beat opens another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept = False
        self._open = ExitStack()
        self._store: LedgerStore | None = None

    def keep(self) -> None:
        """Open the connection and keep it; while the database does not answer, each beat tries again."""
        self._kept = True
        with suppress(DatabaseError), self.store():
            pass

    @contextmanager
    def store(self) -> Iterator[LedgerStore]:
        """The store of the ledger on this connection."""
        if not self._kept:
            with get_store().side_connection() as store:
                yield store
            return
        with self._lock:
            try:
                yield self._connected()
            except BaseException:
                self._close()
                raise

    def _connected(self) -> LedgerStore:
        if self._store is None:
            self._store = self._open.enter_context(get_store().side_connection())
            # The worker's first thread opens the connection, and the heart's thread uses it.
            self._store.connection.inc_thread_sharing()
        return self._store

    def _close(self) -> None:
        self._store, stack = None, self._open.pop_all()
        with suppress(Exception):
            stack.close()
