"""Keeps a ledger that is down from slowing a worker's parent process."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from .stores import LedgerStore, get_store

logger = logging.getLogger("django_idempotent_tasks")

#: After a write that failed, dead children are left to their leases and the sweeper for so many seconds.
PAUSE = 30.0


class Breaker:
    """Keeps a ledger that is down from slowing the parent's event loop again and again."""

    until = 0.0

    def guard(self, work: Callable[[], object]) -> None:
        """Carry ``work`` out unless it failed lately; its errors are logged, never raised."""
        if time.monotonic() < self.until:
            return
        try:
            work()
        except Exception as error:  # noqa: BLE001  the worker must go on whatever this raises
            self.until = time.monotonic() + PAUSE
            logger.warning("The parent could not end a claim (%r); its lease runs out instead", error)


breaker = Breaker()


def on_own_connection(work: Callable[[LedgerStore], None]) -> None:
    """Do ``work`` on a connection of its own: the parent shares none with its children."""
    with get_store().side_connection() as store:
        work(store)
