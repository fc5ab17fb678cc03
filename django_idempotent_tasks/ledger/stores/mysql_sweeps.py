"""MariaDB and MySQL: locks the rows that a sweep moves or deletes first, and touches no other row."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from ...states import State
from ..values import Due
from . import mysql_statements as words
from . import statements
from .cursors import named
from .mysql_locked import LockedWrites
from .reading import due
from .upkeep import LONGEST


class MysqlSweeps(LockedWrites):
    """Adds what the sweeper does."""

    def prune(self, state: State, *, bite: int) -> int:
        select = f"{statements.PRUNABLE} FOR UPDATE SKIP LOCKED"
        with self._in_transaction():
            digests = self._column(select, {"state": int(state), "bite": bite})
            self._delete("{step}", "digest", digests, by="idem_step_once")
            return self._delete("{key}", "digest", digests)

    def prune_answered(self, *, bite: int) -> int:
        with self._in_transaction():
            return self._delete("{answered}", "id", self._column(words.PRUNABLE_ANSWERED, {"bite": bite}))

    def prune_failed(self, *, keep: int, bite: int) -> int:
        with self._in_transaction():
            ids = self._column(words.PRUNABLE_FAILED, {"keep": keep, "bite": bite})
            return self._delete("{failed}", "id", ids)

    def prune_duplicates(self, *, keep: int, bite: int) -> int:
        with self._in_transaction():
            oldest = self._rows(words.OLDEST_DUPLICATES, {"keep": keep, "bite": bite})
            return self._delete("{duplicate}", "id", [number for number, is_old in oldest if is_old])

    def prune_cursors(self, gone: Sequence[int], *, keep: int) -> int:
        if not gone:
            return 0
        names, listed = named(gone)
        with self._in_transaction():
            unmoved = self._column(words.UNMOVED.replace("GONE", names), listed | {"keep": keep})
            return self._delete("{cursor}", "periodic_task_id", unmoved)

    def sweep(
        self, *, bite: int, republish: int, calm: int = LONGEST, until: datetime | None = None
    ) -> list[Due]:
        parameters = self._sweep_parameters(bite, republish, calm, until)
        with self._in_transaction():
            swept: set[UUID] = set()
            for select in words.DUE:
                due_now = self._locked(select, parameters) - swept
                self._write_on(due_now, words.RECORD_FREED, {})
                self._write_on(due_now, words.SWEEP, parameters)
                swept |= due_now
            names, found = self._listed(swept)
            rows = self._rows(words.SWEPT.format(digests=names), found) if swept else []
            return [due(row) for row in rows]

    def sum_duplicates(self, *, bite: int) -> int:
        with self._in_transaction():
            ids = [int(number) for number in self._column(words.BITE, {"bite": bite})]
            if ids:
                listed = ", ".join(map(str, ids))
                self._count(words.ADD_DUPLICATES.format(ids=listed), {})
                self._count(words.MARK_SUMMED.format(ids=listed), {})
            return len(ids)
