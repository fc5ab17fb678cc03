"""SQLite: one writer at a time, so statements need no row locks; for development and small sites."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from ...states import State
from ..values import Call, Claim, Due
from . import claiming, clock, statements
from .atomic import ATOMIC_ANEW, AtomicClaims
from .batches import Batches
from .cancelling import Cancelling
from .cursors import Cursors
from .decisions import Decisions
from .dialect import Dialect
from .failures import Failures
from .follow_ups_sql import FollowUpCalls
from .hourly import Hours
from .many_sql import Many
from .messages import Messages
from .pausing import Pausing
from .reading import Parameters, Row, due
from .redrives import Redrives
from .sql import SqlStore
from .steps import FORGET, Steps
from .upkeep import LONGEST
from .workers import Workers

# As Django writes times, to milliseconds. Django leaves out a fraction that is 0 and else writes six digits;
# with a last digit that is never 0 a time that it has read equals the text in the row.
FORMAT = "'%%Y-%%m-%%d %%H:%%M:%%f001'"

# SQLite has no data-changing WITH: two statements in one transaction that begins with a write.
# The call that was accepted and the one that had taken it over are both answered later.
REMEMBER = f"""
INSERT INTO {{answered}} (digest, task_id, generation, state, reason, result, due_at)
SELECT digest, CASE replaced.which WHEN 0 THEN task_id ELSE runner_task_id END, generation, state, reason,
       result, strftime({FORMAT}, finished_at, '+' || %(window)s || ' seconds')
  FROM {{key}}, (SELECT 0 AS which UNION ALL SELECT 1) AS replaced
 WHERE {claiming.FINISHED} AND (replaced.which = 0 OR runner_task_id IS NOT NULL)
   AND strftime({FORMAT}, finished_at, '+' || %(window)s || ' seconds') > {{now}}
ON CONFLICT (task_id, digest) DO NOTHING
"""

CLAIM_FINISHED = f"""
UPDATE {{key}} AS k {claiming.ANEW} WHERE {claiming.FINISHED}
RETURNING token, generation, attempts, crashes, reason
"""

RESERVE_FINISHED = f"""
UPDATE {{key}} AS k {claiming.RESERVED_ANEW} WHERE {claiming.FINISHED} RETURNING token
"""

ATOMIC_FINISHED = f"""
UPDATE {{key}} AS k {ATOMIC_ANEW} WHERE {claiming.FINISHED}
RETURNING token, generation, attempts, crashes, reason
"""

#: Matches nothing, but a transaction that begins with a write cannot fail later for having read first.
WRITE_FIRST = "UPDATE {key} SET token = token WHERE 0"

RENEW = f"""
UPDATE {{key}} SET open_at = RENEWED, due_at = RENEWED
 WHERE state = {State.RUNNING} AND (digest, token, owner) IN (VALUES HELD) RETURNING digest
"""

PRUNE = f"DELETE FROM {{key}} WHERE digest IN ({statements.PRUNABLE}) RETURNING digest"
OF_THE_PRUNED = "DELETE FROM {step} WHERE digest IN (SELECT value FROM json_each(%(digests)s))"


def _due_in(state: State) -> str:
    return (
        f"SELECT * FROM (SELECT digest FROM {{key}} WHERE {statements.due_in(state)}"
        " ORDER BY due_at LIMIT %(bite)s)"
    )


RECORD_FREED = (
    f"{statements.RECORD_FREED} WHERE k.digest IN ({_due_in(State.RUNNING)}) AND {statements.FREED}"
)

SWEEP = f"""
UPDATE {{key}} AS k {statements.SWEEP}
 WHERE k.digest IN ({" UNION ALL ".join(_due_in(state) for state in statements.DUE_STATES)})
RETURNING {statements.SWEPT.replace("k.", "")}
"""

# An equation: the index does not serve NOT.
BITE = "SELECT id FROM {duplicate} WHERE summed = 0 ORDER BY id LIMIT %(bite)s"

ADD_DUPLICATES = f"""
UPDATE {{key}} SET duplicates = duplicates + (
  SELECT count(*) FROM {{duplicate}} d WHERE d.digest = {{key}}.digest AND d.id IN ({BITE}))
 WHERE digest IN (SELECT digest FROM {{duplicate}} WHERE id IN ({BITE}))
"""

MARK_SUMMED = f"UPDATE {{duplicate}} SET summed = 1 WHERE id IN ({BITE})"


class SqliteDialect(Dialect):
    """``strftime(..., 'now')`` stands still within a statement; times compare as Django's text."""

    true = "1"
    false = "0"
    least = "min"
    uuid_type = "char(32)"
    unheld = "1"
    same = "IS"
    size = "length(CAST(message AS BLOB))"  # octet_length() is of 3.43
    skip_locked = locked = shared = ""

    def now(self) -> str:
        return f"strftime({FORMAT}, 'now', '{clock.offset():+d} seconds')"

    def after(self, seconds: str) -> str:
        shift = f"'{clock.offset():+d} seconds'"
        return f"strftime({FORMAT}, 'now', {shift}, printf('%%+d seconds', {seconds}))"

    def ago(self, seconds: str) -> str:
        shift = f"'{clock.offset():+d} seconds'"
        return f"strftime({FORMAT}, 'now', {shift}, printf('-%%.3f seconds', {seconds}))"

    def later(self, column: str, seconds: str) -> str:
        return f"strftime({FORMAT}, {column}, printf('%%+d seconds', {seconds}))"

    def until(self, column: str) -> str:
        # Days as a float are good to a tenth of a millisecond; times are stored in whole ones.
        return f"round((julianday({column}) - julianday({self.now()})) * 86400.0, 3)"

    def between(self, first: str, last: str) -> str:
        return f"round((julianday({last}) - julianday({first})) * 86400.0, 3)"

    def uuid(self, value: UUID | None) -> object:
        return value.hex if value is not None else None


class SqliteStore(
    AtomicClaims,
    Failures,
    Decisions,
    Redrives,
    Pausing,
    Hours,
    Cursors,
    Workers,
    Cancelling,
    Batches,
    Many,
    Messages,
    Steps,
    FollowUpCalls,
    SqlStore,
):
    """The store for development and small sites."""

    dialect = SqliteDialect()

    def _claim_finished(self, parameters: Parameters) -> Row | None:
        with self._write():
            self._remember(parameters)
            return self._row(CLAIM_FINISHED, parameters)

    def _reserve_finished(self, parameters: Parameters) -> Row | None:
        with self._write():
            self._remember(parameters)
            return self._row(RESERVE_FINISHED, parameters)

    def _atomic_finished(self, parameters: Parameters) -> Row | None:
        self._remember(parameters)
        return self._row(ATOMIC_FINISHED, parameters)

    def _remember(self, parameters: Parameters) -> None:
        """Remember the replaced call, and forget its steps where they are not those of the new work."""
        self._count(REMEMBER, parameters)
        self._count(FORGET, parameters)

    def _hold(self, call: Call) -> bool:  # noqa: ARG002  the whole database is held
        self._write_first()
        return True

    def _write_first(self) -> None:
        self._count(WRITE_FIRST, {})

    def _has_failed(self) -> bool | None:
        is_closed = self.connection.closed_in_transaction  # Python's own error, were it asked then
        return None if is_closed or not self.connection.connection.in_transaction else False

    def _cancel(self, which: str, parameters: Parameters) -> int:
        return self._count(f"{statements.CANCEL} WHERE {which}", parameters)

    def prune(self, state: State, *, bite: int) -> int:
        with self._write():
            pruned = [digest for (digest,) in self._rows(PRUNE, {"state": int(state), "bite": bite})]
            if pruned:
                self._count(OF_THE_PRUNED, {"digests": json.dumps(pruned)})
            return len(pruned)

    @contextmanager
    def _write(self) -> Iterator[None]:
        """Two statements as one. BEGIN IMMEDIATE waits for the writer; a deferred one could fail at once."""
        raw = self.connection.connection  # a side connection's transaction is not Django's
        if self.connection.in_atomic_block or (raw is not None and raw.in_transaction):
            yield
            return
        with self.connection.cursor() as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield
                cursor.execute("COMMIT")  # fails while somebody reads, and then leaves the transaction open
            except BaseException:
                if self.connection.connection.in_transaction:
                    cursor.execute("ROLLBACK")
                raise

    def renew(self, held: Sequence[Claim]) -> set[UUID]:
        if not held:
            return set()
        named, parameters = self._held(held)
        template = RENEW.replace("RENEWED", self.dialect.after("lease_seconds")).replace("HELD", named)
        return {UUID(str(digest)) for (digest,) in self._rows(template, parameters)}

    def sweep(
        self, *, bite: int, republish: int, calm: int = LONGEST, until: datetime | None = None
    ) -> list[Due]:
        parameters = self._sweep_parameters(bite, republish, calm, until)
        with self._write():
            self._count(RECORD_FREED, parameters)
            return [due(row) for row in self._rows(SWEEP, parameters)]

    def sum_duplicates(self, *, bite: int) -> int:
        with self._write():
            self._count(ADD_DUPLICATES, {"bite": bite})
            return self._count(MARK_SUMMED, {"bite": bite})

    def shorten_timeouts(self, connection: BaseDatabaseWrapper) -> None:
        connection.settings_dict.setdefault("OPTIONS", {})["timeout"] = 2
