"""Deletes beat's cursors whose periodic task was deleted, also where no beat runs any more."""

from __future__ import annotations

from collections.abc import Sequence

from .reading import Parameters
from .sql import SqlStore

ANY_OLD = "SELECT 1 FROM {cursor} WHERE updated_at <= {before[keep]} LIMIT 1"

#: One statement sees cursors and entries at one moment. An entry is committed before its cursor is written.
GONE = """
SELECT c.periodic_task_id FROM {cursor} c
 WHERE c.updated_at <= {before[keep]}
   AND NOT EXISTS (SELECT 1 FROM ENTRIES e WHERE e.id = c.periodic_task_id)
 ORDER BY c.periodic_task_id LIMIT %(bite)s
"""

#: What was written to meanwhile belongs to a new entry, which was given the same number.
PRUNE = "DELETE FROM {cursor} WHERE periodic_task_id IN (GONE) AND updated_at <= {before[keep]}"


class Cursors(SqlStore):
    """Adds what becomes of cursors without an entry."""

    def gone_cursors(self, *, entries: str, keep: int, bite: int) -> list[int]:
        table = self.connection.ops.quote_name(entries)
        # The entries are not asked for where no beat has ever run: the table may be missing.
        if not self._rows(ANY_OLD, {"keep": keep}) or not self._are_beside(table):
            return []
        return [row[0] for row in self._rows(GONE.replace("ENTRIES", table), {"keep": keep, "bite": bite})]

    def prune_cursors(self, gone: Sequence[int], *, keep: int) -> int:
        if not gone:
            return 0
        names, listed = named(gone)
        return self._count(PRUNE.replace("GONE", names), listed | {"keep": keep})

    def _are_beside(self, entries: str) -> bool:  # noqa: ARG002
        """Whether this table is where the ledger's are, if the database has more than one place for it."""
        return True


def named(numbers: Sequence[int]) -> tuple[str, Parameters]:
    """The numbers as a list in a statement, and its parameters."""
    listed: Parameters = {f"c{place}": number for place, number in enumerate(numbers)}
    return ", ".join(f"%({name})s" for name in listed), listed
