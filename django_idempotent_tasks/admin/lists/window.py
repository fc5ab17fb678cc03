"""Bounds what a list reads: pages and filters without an index look at a limited number of rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.core.paginator import Paginator
from django.db import connections
from django.db.models import F, QuerySet, Value
from django.db.models.functions import Coalesce

from ...operations.counts import CAP
from ...operations.search import WINDOW

#: How many keys of one state are read from all over the table, to be sorted by age.
FEW = 2000


@dataclass(frozen=True, slots=True)
class Windowed:
    """Rows that may be filtered further; ``is_all``: no row was left out."""

    rows: QuerySet[Any]
    is_all: bool


def number(rows: QuerySet[Any], most: int) -> int:
    """How many rows there are, counted up to ``most``."""
    # No order and no column, so that an index of the condition alone can answer. QuerySet.count() would
    # drop the constant too, and MariaDB then selects a column.
    found = rows.order_by().values_list(Value(1))[:most]
    try:
        sql, parameters = found.query.get_compiler(rows.db).as_sql()
    except EmptyResultSet:
        return 0
    with connections[rows.db].cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM ({sql}) looked_at", parameters)  # noqa: S608  our own query
        return int(cursor.fetchone()[0])


class CappedPaginator(Paginator):  # type: ignore[type-arg]  # generic in the stubs only
    """Pages over the first ``CAP`` rows; ``is_capped``: there are more."""

    @cached_property
    def _looked_at(self) -> int:
        rows: Any = self.object_list
        return number(rows, CAP + 1)

    @cached_property
    def count(self) -> int:
        """Rows that can be paged through."""
        return min(self._looked_at, CAP)

    @property
    def is_capped(self) -> bool:
        """Whether there are more rows than are counted."""
        return self._looked_at > CAP


def newest(
    rows: QuerySet[Any], moment: str, limit: int | None = None, *, of: QuerySet[Any] | None = None
) -> Windowed:
    """The rows among the newest ``limit`` (or ``WINDOW``) of ``of``, by ``moment``, which has an index."""
    limit = WINDOW if limit is None else limit
    last = (
        (rows if of is None else of).order_by(f"-{moment}").values_list(moment, flat=True)[limit : limit + 1]
    )
    edge = next(iter(last), None)
    if edge is None:
        return Windowed(rows, is_all=True)
    return Windowed(rows.filter(**{f"{moment}__gt": edge}), is_all=False)


def of_state(rows: QuerySet[Any], state: int, every: QuerySet[Any], *, is_filtered: bool) -> Windowed:
    """The keys of a state: up to ``FEW`` sorted by age, more of them in the order of their index.

    That is the order in which the sweeper looks at them; finished keys are in the order of their end.
    With a further filter, more than ``FEW`` are searched among the newest keys of all states.
    """
    if number(every.filter(state=state), FEW + 1) <= FEW:
        # Not the column itself: the database must use the index of the state, not that of the age.
        order = Coalesce(F("created_at"), F("created_at")).desc()
        return Windowed(rows.filter(state=state).order_by(order, "-pk"), is_all=True)
    if not is_filtered:
        return Windowed(rows.filter(state=state).order_by("-due_at", "-pk"), is_all=True)
    found = newest(rows, "created_at")
    return Windowed(found.rows.filter(state=state), found.is_all)
