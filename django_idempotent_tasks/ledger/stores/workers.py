"""Keeps in SQL what each worker says about itself."""

from __future__ import annotations

import json

from ..presence import Presence
from .sql import SqlStore

#: What stays the same as long as a worker lives is written once. One that has stopped stays stopped.
NOTE = """
INSERT INTO {worker}
       (instance, name, host, pid, pool, concurrency, queues, tasks, version, started_at, seen_at)
VALUES (%(instance)s, %(name)s, %(host)s, %(pid)s, %(pool)s, %(concurrency)s, %(queues)s, %(tasks)s,
        %(version)s, {elapsed_ago}, {now})
"""

STOPPED = """
UPDATE {worker} SET seen_at = {now}, stopped_at = {now} WHERE instance = %(instance)s AND stopped_at IS NULL
"""

PRUNE = """
DELETE FROM {worker} WHERE instance IN (SELECT instance FROM (
  SELECT instance FROM {worker} WHERE seen_at <= {before[keep]} ORDER BY seen_at LIMIT %(bite)s) oldest)
"""


class Workers(SqlStore):
    """Adds what the workers write."""

    def note_worker(self, presence: Presence) -> None:
        named = {
            "instance": presence.instance,
            "name": presence.name,
            "host": presence.host,
            "pid": presence.pid,
            "pool": presence.pool,
            "concurrency": presence.concurrency,
            "queues": json.dumps(presence.queues),
            "tasks": json.dumps(presence.tasks),
            "version": presence.version,
            "elapsed": presence.age,
        }
        self._count(NOTE + self.dialect.upsert(("instance",), ("concurrency", "queues", "seen_at")), named)

    def worker_stopped(self, instance: str) -> None:
        self._count(STOPPED, {"instance": instance})

    def prune_workers(self, *, keep: int, bite: int) -> int:
        return self._count(PRUNE, {"keep": keep, "bite": bite})
