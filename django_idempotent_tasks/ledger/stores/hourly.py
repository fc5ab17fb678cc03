"""Counts an hour of the ledger in SQL, in one statement that replaces earlier counts of that hour."""

from __future__ import annotations

from datetime import datetime

from ...models.fields import MOMENT
from ...states import State
from .sql import SqlStore

_COLUMNS = ("created", "succeeded", "failed", "duplicates", "crashes")

#: By the index of ``created_at``.
COUNT = f"""
INSERT INTO {{hourly}} (hour, task, created, succeeded, failed, duplicates, crashes)
SELECT %(hour)s, k.task, COUNT(*), SUM(CASE WHEN k.state = {State.SUCCEEDED} THEN 1 ELSE 0 END),
       SUM(CASE WHEN k.state IN ({State.REVIEW}, {State.FAILED}) THEN 1 ELSE 0 END),
       SUM(k.duplicates), SUM(k.crashes)
  FROM {{key}} k WHERE k.created_at >= %(hour)s AND k.created_at < %(until)s GROUP BY k.task
"""

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
        moments = {"hour": hour, "until": until}
        named = {name: MOMENT.get_db_prep_value(each, self.connection) for name, each in moments.items()}
        self._count(COUNT + self.dialect.upsert(("hour", "task"), _COLUMNS), named)
        named |= {"marker": marker}
        del named["until"]
        self._count(MARK + self.dialect.upsert(("hour", "task"), ("created",)), named)

    def prune_hourly(self, *, keep: int, bite: int) -> int:
        return self._count(PRUNE, {"keep": keep, "bite": bite})
