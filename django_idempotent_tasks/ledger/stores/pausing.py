"""Pauses in SQL: which are in force, and the rows that wait for the end of one.

A row that waits has the pause's ``held_at`` as its due time, to the last digit: the sweeper's index finds
what one pause holds, and no sweep takes it.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from ..paused import Paused
from . import statements
from .cursors import named
from .sql import SqlStore

_COLUMNS = "id, task, scope, rate, paused_by, reason"
_IS_ACTIVE = "p.resumed_at IS NULL AND p.until > {now}"

ACTIVE = f"SELECT {_COLUMNS} FROM {{pause}} p WHERE p.drained_at IS NULL AND {_IS_ACTIVE} ORDER BY id"

#: Over, and perhaps with rows that wait still; the seconds since its end.
ENDED = f"""
SELECT {_COLUMNS}, {{ended_for}} FROM {{pause}} p
 WHERE drained_at IS NULL AND (p.resumed_at IS NOT NULL OR p.until <= {{now}}) ORDER BY id
"""

#: A process may not know yet that the pause is over: what it held then would wait for ever.
PARK = f"""
UPDATE {{key}} SET sends = -1, due_at = (SELECT held_at FROM {{pause}} WHERE id = %(pause)s)
 WHERE {statements.UNLOCKED} AND token = %(token)s AND message IS NOT NULL AND {statements.UNCLAIMED}
   AND EXISTS (SELECT 1 FROM {{pause}} p WHERE p.id = %(pause)s AND {_IS_ACTIVE})
"""

_HELD = (
    f"{statements.UNCLAIMED} AND due_at = (SELECT held_at FROM {{pause}} WHERE id = %(pause)s)"
    " AND task = %(task)s"
)
HELD = f"SELECT digest FROM {{key}} WHERE {_HELD} LIMIT %(bite)s {{skip_locked}}"
COUNT_HELD = f"SELECT COUNT(*) FROM (SELECT digest FROM {{key}} WHERE {_HELD} LIMIT %(bite)s) held"

#: As after a failed send: due now, or when the call's own time has come.
UNPARK = f"""
UPDATE {{key}} SET due_at = CASE WHEN open_at > {{now}} THEN open_at ELSE {{now}} END
 WHERE digest IN (DIGESTS) AND {_HELD}
"""

DRAINED = "UPDATE {pause} SET drained_at = {now} WHERE id = %(id)s AND drained_at IS NULL"

PRUNE = """
DELETE FROM {pause} WHERE id IN (SELECT id FROM (
  SELECT id FROM {pause} WHERE drained_at <= {before[keep]} ORDER BY id LIMIT %(bite)s) oldest)
"""


class Pausing(SqlStore):
    """Adds what waits for the end of a pause."""

    def active_pauses(self) -> list[Paused]:
        return [Paused(*row) for row in self._rows(ACTIVE, {})]

    def ended_pauses(self) -> list[Paused]:
        return [replace(Paused(*row[:-1]), ended_for=float(row[-1])) for row in self._rows(ENDED, {})]

    def park(self, digest: UUID, *, token: int, pause: int) -> bool:
        return self._count(PARK, {"digest": self.dialect.uuid(digest), "token": token, "pause": pause}) == 1

    def unpark(self, pause: Paused, *, bite: int) -> int:
        held = {"pause": pause.id, "task": pause.task}
        with self.together():
            self._write_first()
            found = [row[0] for row in self._rows(HELD, held | {"bite": bite})]
            if not found:
                return 0
            names, listed = named(found)
            return self._count(UNPARK.replace("DIGESTS", names), held | listed)

    def count_held(self, pause: Paused, *, bite: int) -> int:
        row = self._row(COUNT_HELD, {"pause": pause.id, "task": pause.task, "bite": bite})
        return int(row[0]) if row is not None else 0

    def drained(self, pause: Paused) -> bool:
        return self._count(DRAINED, {"id": pause.id}) == 1

    def prune_pauses(self, *, keep: int, bite: int) -> int:
        return self._count(PRUNE, {"keep": keep, "bite": bite})
