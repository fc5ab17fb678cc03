"""Orders whose child is killed in the middle of their first attempt."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from django_idempotent_tasks.states import State
from tests.processes.reserved.shop import Shop
from tests.support.waiting import eventually


class Victims:
    """Those that were ordered, and still live."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._living: set[str] = set()
        self.killed = 0

    def order(self, key: str) -> None:
        """Order one; only its first attempt waits for its end."""
        journal = self._shop.site.journal
        journal.open(*(f"{key}.{attempt}" for attempt in range(2, 9)))
        self._living.add(key)
        self._shop.order(key, gated=True)

    def kill(self) -> None:
        """SIGKILL the children that run one now."""
        for key in list(self._living):
            if (self._shop.site.directory / f"{key}.1.visited").exists():
                self._kill(key)

    def kill_all(self) -> None:
        """Wait until each has begun and was killed."""
        eventually(self._all_killed, "every victim is killed", within=120, every=0.05)

    @property
    def living(self) -> int:
        """How many have not begun yet, or run now."""
        return len(self._living)

    def _all_killed(self) -> bool:
        self.kill()
        return not self._living

    def _kill(self, key: str) -> None:
        self._living.discard(key)
        row = self._shop.site.rows.row(key)
        if row.state == State.RUNNING and row.owner and row.attempts == 1:
            pid = int(row.owner.split(":")[1])
            workers = [worker for worker in self._shop.site.workers if worker.is_alive]
            with suppress(ProcessLookupError):
                if any(pid in worker.children() for worker in workers):  # it may have died with its worker
                    os.kill(pid, signal.SIGKILL)
                    self.killed += 1
