"""What the pools' tests share: the worker's surroundings, and bodies that only they need."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from django.db import connection

from tests.sample.tasks import LEASE, begin, complete_with_effect, guarded, journal
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site


@dataclass(frozen=True)
class House:
    """A site with one worker of one pool."""

    pool: str
    site: Site
    worker: Worker

    @property
    def runs_several(self) -> bool:
        """Whether bodies run beside each other."""
        return self.pool != "solo"


def backends() -> set[int]:
    """The server processes that work for the site's database, but for the one that is asked."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return {pid for (pid,) in cursor.fetchall()}


@guarded(name="pools.hogging")
def hogging(self: Any, key: str) -> None:
    """In the first attempt compute until the test says so, and let no greenlet have a turn."""
    begin(self, key)
    until = time.monotonic() + 10 * LEASE
    while self.idempotency.attempt == 1 and time.monotonic() < until:
        if journal().is_open(f"{key}.1"):
            break
    complete_with_effect(self, key)
