"""Redrive operations in SQL: a bite and its progress are written in one transaction."""

from __future__ import annotations

from ...models import OperationState
from ...models.fields import MOMENT
from ..values import RedriveBite
from .sql import SqlStore

#: ``seen`` is how many keys had been looked at: of two sweepers in one bite only one goes on.
ADVANCE = f"""
UPDATE {{redrive}} SET redriven = redriven + %(redriven)s, skipped = skipped + %(skipped)s,
       last_signature = COALESCE(%(signature)s, last_signature), last_at = COALESCE(%(at)s, last_at),
       last_digest = COALESCE(%(digest)s, last_digest),
       finished_at = CASE WHEN %(state)s = {OperationState.DONE} THEN {{now}} ELSE NULL END, state = %(state)s
 WHERE id = %(id)s AND state = {OperationState.RUNNING} AND redriven + skipped = %(seen)s
"""

STOP = (
    f"UPDATE {{redrive}} SET stopped_by = %(by)s, finished_at = {{now}}, state = {OperationState.STOPPED}"
    f" WHERE id = %(id)s AND state = {OperationState.RUNNING}"
)

#: What runs is never past its time. Ids grow with time.
PRUNE = f"""
DELETE FROM {{redrive}} WHERE id IN (SELECT id FROM (
  SELECT id FROM {{redrive}} WHERE state IN ({OperationState.DONE}, {OperationState.STOPPED})
     AND finished_at <= {{before[keep]}} ORDER BY id LIMIT %(bite)s) oldest)
"""


class Redrives(SqlStore):
    """Adds the progress of redrives."""

    def advance_redrive(self, operation: int, bite: RedriveBite) -> bool:
        named = {
            "id": operation,
            "seen": bite.seen,
            "redriven": bite.redriven,
            "skipped": bite.skipped,
            "signature": bite.last_signature,
            "at": MOMENT.get_db_prep_value(bite.last_at, self.connection),
            "digest": self.dialect.uuid(bite.last_digest),
            "state": int(OperationState.DONE if bite.is_last else OperationState.RUNNING),
        }
        return self._count(ADVANCE, named) == 1

    def prune_redrives(self, *, keep: int, bite: int) -> int:
        return self._count(PRUNE, {"keep": keep, "bite": bite})

    def stop_redrive(self, operation: int, *, by: str) -> bool:
        return self._count(STOP, {"id": operation, "by": by}) == 1
