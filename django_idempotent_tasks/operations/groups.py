"""Groups dead letters that failed alike: those of a selection by kind, or all by signature and age."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connections
from django.db.models import Count, Max, Min, Q, QuerySet

from ..ledger.encoding import decode_error
from ..ledger.moments import shifted
from ..models import DeadLetter, FailedJob
from ..models.fields import MOMENT
from ..states import EXPECTED_FROM, Category, State
from .selection import Selection
from .text import category_name

#: Dead letters that a count by age looks at, and signatures that it returns.
BOUND, SHOWN = 100_000, 10
#: The ages that are counted.
SPANS = (timedelta(hours=1), timedelta(hours=24), timedelta(days=7))


@dataclass(frozen=True, slots=True)
class Kind:
    """Dead letters of one signature, task, state and category; ``sendable``: with a stored call."""

    signature: str
    task: str
    state: State
    category: Category | None
    count: int
    sendable: int
    oldest: datetime
    newest: datetime
    error: str = ""

    def facts(self) -> dict[str, object]:
        """For JSON."""
        return {
            "signature": self.signature,
            "task": self.task,
            "state": self.state.name.lower(),
            "category": category_name(self.category),
            "count": self.count,
            "sendable": self.sendable,
            "oldest": self.oldest,
            "newest": self.newest,
            "error": self.error,
        }


def kinds(alias: str, selection: Selection, limit: int) -> list[Kind]:
    """The most frequent kinds of the dead letters that match, each with the error of its last one."""
    found = selection.query(alias).order_by().values("signature", "task", "state", "category")
    counted = found.annotate(
        count=Count("digest"),
        sendable=Count("digest", filter=Q(message__isnull=False)),
        oldest=Min("finished_at"),
        newest=Max("finished_at"),
    )
    rows = counted.order_by("-count", "signature", "task", "state", "category")[:limit]
    return [_kind(alias, row) for row in rows]


def _kind(alias: str, row: Any) -> Kind:
    names = ("signature", "task", "state", "category")
    like = DeadLetter.undecided.using(alias).filter(**{name: row[name] for name in names})
    last = like.order_by("signature", "finished_at").values_list("result", flat=True).last()
    facts = row | {"state": State(row["state"]), "error": decode_error(last)}
    return Kind(**facts)


@dataclass(frozen=True, slots=True)
class Signature:
    """Dead letters of one signature: ``ages`` of them ended within each of ``SPANS``, ``count`` ever."""

    signature: str
    ages: tuple[int, ...]
    count: int
    #: The last failed attempt of this signature, which tells the error; None: it was pruned.
    last: FailedJob | None


#: The largest groups, each with the id of its last failed job; then how many rows were looked at.
_BY_AGE = """
SELECT g.signature, g.hour, g.day, g.week, g.number,
       (SELECT f.id FROM {failed} f WHERE f.signature = g.signature ORDER BY f.at DESC LIMIT 1), g.looked_at
  FROM (SELECT d.signature AS signature, COUNT(*) AS number, SUM(COUNT(*)) OVER () AS looked_at,
               SUM(CASE WHEN d.ended >= %s THEN 1 ELSE 0 END) AS hour,
               SUM(CASE WHEN d.ended >= %s THEN 1 ELSE 0 END) AS day,
               SUM(CASE WHEN d.ended >= %s THEN 1 ELSE 0 END) AS week
          FROM ({dead}) d GROUP BY d.signature ORDER BY COUNT(*) DESC, d.signature LIMIT {shown}) g
 ORDER BY g.number DESC, g.signature
"""


def by_age(alias: str, now: datetime) -> tuple[list[Signature], bool]:
    """The most frequent signatures, and whether every dead letter was counted. Two statements, always."""
    connection = connections[alias]
    dead = indexed(alias).order_by().values_list("signature", "finished_at")[: BOUND + 1]
    sql, parameters = dead.query.get_compiler(alias).as_sql()
    name = connection.ops.quote_name
    inner = f"SELECT x.{name('signature')} AS signature, x.{name('finished_at')} AS ended FROM ({sql}) x"  # noqa: S608  our own query
    statement = _BY_AGE.format(failed=FailedJob._meta.db_table, dead=inner, shown=SHOWN)
    since = [MOMENT.get_db_prep_value(shifted(now, -span), connection) for span in SPANS]
    with connection.cursor() as cursor:
        cursor.execute(statement, [*since, *parameters])
        rows = cursor.fetchall()
    jobs = FailedJob.objects.using(alias).only("task", "error").in_bulk([row[5] for row in rows])
    found = [Signature(row[0], tuple(map(int, row[1:4])), int(row[4]), jobs.get(row[5])) for row in rows]
    return found, not rows or int(rows[0][6]) <= BOUND


def indexed(alias: str) -> QuerySet[DeadLetter]:
    """All dead letters, as the partial index has them: counted and sorted without a look at the rows.

    A signature that was not discarded is a dead letter's: whatever moves a key on clears it.
    """
    if connections[alias].vendor == "mysql":  # no partial index there; the state has one
        return DeadLetter.objects.using(alias)
    found = DeadLetter._base_manager.using(alias)
    return found.filter(discarded_at__isnull=True, signature__lt=EXPECTED_FROM)
