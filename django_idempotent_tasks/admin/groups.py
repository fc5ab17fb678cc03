"""Dead letters by the signature of their error and by how long ago they ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.db import connections

from ..ledger.moments import shifted
from ..models import FailedJob
from ..models.fields import MOMENT
from .lists.waiting import dead_letters
from .words.ledger import alias
from .words.wording import dotted

#: Dead letters that are looked at, and groups that are shown.
BOUND, SHOWN = 100_000, 10

WINDOWS = {"1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7)}

#: The largest groups, each with its last failed job, which tells what error it is.
GROUPS = """
SELECT g.signature, g.hour, g.day, g.week, g.number,
       (SELECT f.id FROM {failed} f WHERE f.signature = g.signature ORDER BY f.at DESC LIMIT 1)
  FROM (SELECT d.signature AS signature, COUNT(*) AS number,
               SUM(CASE WHEN d.ended >= %s THEN 1 ELSE 0 END) AS hour,
               SUM(CASE WHEN d.ended >= %s THEN 1 ELSE 0 END) AS day,
               SUM(CASE WHEN d.ended >= %s THEN 1 ELSE 0 END) AS week
          FROM ({dead}) d GROUP BY d.signature ORDER BY COUNT(*) DESC, d.signature LIMIT {shown}) g
 ORDER BY g.number DESC, g.signature
"""


@dataclass(frozen=True, slots=True)
class Group:
    """One signature; ``cells`` are counts with the query of the list that shows them."""

    error: str
    task: str
    query: str
    cells: list[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Groups:
    """The largest ones; ``is_all``: every dead letter was looked at."""

    rows: list[Group]
    is_all: bool


def groups(now: datetime) -> Groups:
    """Two statements, whatever there is."""
    using = alias()
    connection = connections[using]
    dead = dead_letters().order_by().values_list("signature", "finished_at")[: BOUND + 1]
    sql, parameters = dead.query.get_compiler(using).as_sql()
    name = connection.ops.quote_name
    inner = f"SELECT x.{name('signature')} AS signature, x.{name('finished_at')} AS ended FROM ({sql}) x"  # noqa: S608  our own query
    statement = GROUPS.format(failed=FailedJob._meta.db_table, dead=inner, shown=SHOWN)
    since = [MOMENT.get_db_prep_value(shifted(now, -span), connection) for span in WINDOWS.values()]
    with connection.cursor() as cursor:
        cursor.execute(statement, [*since, *parameters])
        rows = cursor.fetchall()
    jobs = FailedJob.objects.using(using).only("task", "error").in_bulk([row[5] for row in rows])
    total = sum(row[4] for row in rows)
    return Groups([_group(row, jobs.get(row[5])) for row in rows], is_all=total <= BOUND)


def _group(row: Any, job: FailedJob | None) -> Group:
    signature = row[0]
    cells = [
        (int(number), urlencode({"signature": signature, "ended": window}))
        for window, number in zip(WINDOWS, row[1:4], strict=True)
    ]
    every = urlencode({"signature": signature})
    error, task = (signature, "") if job is None else (dotted(job.error), dotted(job.task))
    return Group(error, task, every, [*cells, (int(row[4]), every)])
