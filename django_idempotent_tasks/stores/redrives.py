"""Redrive operations in SQL: progress and what it tells of are one transaction."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ..models.fields import MOMENT
from ..outcomes import RedriveBite
from .failures import FailureSqlStore

#: ``seen`` is how many keys had been looked at: of two sweepers in one bite only one goes on.
ADVANCE = """
UPDATE {redrive} SET redriven = redriven + %(redriven)s, skipped = skipped + %(skipped)s,
       last_signature = COALESCE(%(signature)s, last_signature), last_at = COALESCE(%(at)s, last_at),
       last_digest = COALESCE(%(digest)s, last_digest),
       finished_at = CASE WHEN %(state)s = 2 THEN {now} ELSE NULL END, state = %(state)s
 WHERE id = %(id)s AND state = 1 AND redriven + skipped = %(seen)s
"""

STOP = (
    "UPDATE {redrive} SET stopped_by = %(by)s, finished_at = {now}, state = 3 WHERE id = %(id)s AND state = 1"
)


class RedriveSqlStore(FailureSqlStore):
    """Adds the progress of redrives."""

    def together(self) -> AbstractContextManager[None]:
        return self._transaction()

    def advance_redrive(self, operation: int, bite: RedriveBite) -> bool:
        named = {
            "id": operation,
            "seen": bite.seen,
            "redriven": bite.redriven,
            "skipped": bite.skipped,
            "signature": bite.last_signature,
            "at": MOMENT.get_db_prep_value(bite.last_at, self.connection),
            "digest": self.dialect.uuid(bite.last_digest),
            "state": 2 if bite.is_last else 1,
        }
        return self._count(ADVANCE, named) == 1

    def stop_redrive(self, operation: int, *, by: str) -> bool:
        return self._count(STOP, {"id": operation, "by": by}) == 1
