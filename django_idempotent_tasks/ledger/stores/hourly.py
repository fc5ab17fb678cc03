"""Counts an hour of the ledger in SQL, in one statement that replaces earlier counts of that hour."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models.functions import Now

from ...models import BOUNDS
from ...models.fields import MOMENT
from ...states import Category, Reason, State
from ..rules import SHADOW
from ..values import TaskTotals
from .reading import to_totals
from .sql import SqlStore

_DEAD = f"({State.REVIEW}, {State.FAILED})"

#: A leased run that its owner ended: a completion keeps the owner, and what others fail has been sent
#: again or names a death. An atomic run writes both its moments when it begins: without a result no
#: statement comes later, and the one that stores a result would have to change ``finished_at``, a column of
#: an index, so that PostgreSQL would write a new entry in each index of the row.
RUN = f"""
CASE WHEN k.lease_seconds > 0 AND ((k.state = {State.SUCCEEDED} AND k.owner IS NOT NULL)
          OR (k.state IN {_DEAD} AND k.sends = 0
              AND k.reason NOT IN ({Reason.OWNER_DIED}, {Reason.POISON}))) THEN ELAPSED END
"""

#: The wait of a reserved call for its first attempt, where no failure and no redrive came between.
WAIT = """
CASE WHEN k.attempts = 1 AND k.crashes = 0 AND k.started_at > k.created_at
      AND (k.token = 1 OR NOT EXISTS (
           SELECT 1 FROM {failed} f
            WHERE f.digest = k.digest AND f.at >= k.created_at AND f.at < k.started_at))
     THEN ELAPSED END
"""

#: The calls of a key that ran in shadow mode: they are summed with the duplicates, and refused by nobody.
RAN = """
CASE WHEN k.duplicates > 0 THEN (
     SELECT COUNT(*) FROM {duplicate} d
      WHERE d.digest = k.digest AND d.place = 'SHADOW' AND d.summed = {true} AND d.at >= k.created_at)
     ELSE 0 END
""".replace("SHADOW", SHADOW)

#: The state of a key, in which an end that its task expects is no failure.
ENDED = f"""
CASE WHEN k.state = {State.FAILED} AND k.category = {Category.EXPECTED} THEN {State.SUCCEEDED}
     ELSE k.state END
"""

_TOTALS = ("created", "succeeded", "failed", "duplicates", "crashes", "would_refuse")
_TIMES = tuple(
    f"{kind}_{name}" for kind in ("run", "wait") for name in ("count", "seconds", "max", "buckets")
)
_COLUMNS = (*_TOTALS, *_TIMES, "last_failure_at")

TOTALS = f"""COUNT(*), SUM(CASE WHEN t.state = {State.SUCCEEDED} THEN 1 ELSE 0 END),
       SUM(CASE WHEN t.state IN {_DEAD} THEN 1 ELSE 0 END), SUM(t.duplicates - t.ran), SUM(t.crashes),
       SUM(t.ran)"""
LAST_FAILURE = f"MAX(CASE WHEN t.state IN {_DEAD} THEN t.finished_at END)"

#: By the index of ``created_at``.
_OF_THE_HOUR = "WHERE k.created_at >= %(hour)s AND k.created_at < %(until)s"
_NEWEST = "WHERE k.created_at >= %(since)s ORDER BY k.created_at DESC LIMIT %(most)s"

MARK = """
INSERT INTO {hourly} (hour, task, created, succeeded, failed, duplicates, crashes)
VALUES (%(hour)s, %(marker)s, 0, 0, 0, 0, 0)
"""

PRUNE = """
DELETE FROM {hourly} WHERE id IN (SELECT id FROM (
  SELECT id FROM {hourly} WHERE hour <= {before[keep]} ORDER BY hour LIMIT %(bite)s) oldest)
"""


class Hours(SqlStore):
    """Adds the counts of an hour."""

    def count_hour(self, hour: datetime, until: datetime, *, marker: str) -> None:
        named = {"hour": self._moment(hour), "until": self._moment(until)}
        into = f"INSERT INTO {{hourly}} (hour, task, {', '.join(_COLUMNS)}) SELECT %(hour)s, "
        counted = into + self._counted(_OF_THE_HOUR) + self.dialect.upsert(("hour", "task"), _COLUMNS)
        self._count(counted, named)
        del named["until"]
        self._count(MARK + self.dialect.upsert(("hour", "task"), ("created",)), named | {"marker": marker})

    def totals_since(self, since: datetime, *, most: int) -> list[TaskTotals]:
        named = {"since": self._moment(since), "most": most}
        rows = self._rows("SELECT " + self._counted(_NEWEST), named)
        return [to_totals((*row[:-1], self._read(row[-1]))) for row in rows]

    def prune_hourly(self, *, keep: int, bite: int) -> int:
        return self._count(PRUNE, {"keep": keep, "bite": bite})

    def _counted(self, which: str) -> str:
        """What is counted of the keys of a condition, by task, in the order of the columns."""
        run = RUN.replace("ELAPSED", self.dialect.between("k.started_at", "k.finished_at"))
        wait = WAIT.replace("ELAPSED", self.dialect.between("k.created_at", "k.started_at"))
        keys = (
            f"SELECT k.task, {ENDED} AS state, k.duplicates, k.crashes, k.finished_at,"
            f" {RAN} AS ran, {run} AS run, {wait} AS wait"
            f" FROM {{key}} k {which}"
        )
        times = f"{self._times('run')}, {self._times('wait')}"
        return f"t.task, {TOTALS}, {times}, {LAST_FAILURE} FROM ({keys}) t GROUP BY t.task\n"

    def _times(self, column: str) -> str:
        """How many, their sum, the longest, and how many in each bucket."""
        value = f"t.{column}"
        lower = ["", *(f"{value} > {bound} AND " for bound in BOUNDS)]
        upper = [*(f"{value} <= {bound}" for bound in BOUNDS), f"{value} IS NOT NULL"]
        buckets = [
            f"SUM(CASE WHEN {low}{high} THEN 1 ELSE 0 END)" for low, high in zip(lower, upper, strict=True)
        ]
        parts = [part for bucket in buckets for part in ("','", bucket)][1:]
        text = self.dialect.joined(["'['", *parts, "']'"])
        return f"COUNT({value}), COALESCE(SUM({value}), 0), COALESCE(MAX({value}), 0), {text}"

    def _moment(self, moment: datetime) -> object:
        return MOMENT.get_db_prep_value(moment, self.connection)

    def _read(self, moment: Any) -> datetime | None:
        """A moment as Django reads it from a column."""
        for convert in self.connection.ops.get_db_converters(Now()):
            moment = convert(moment, Now(), self.connection)
        found: datetime | None = moment
        return found
