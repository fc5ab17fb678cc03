"""Bounds for filters that no index serves: they look at the newest rows, and say so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce

from ..management.search import WINDOW


@dataclass(frozen=True, slots=True)
class Windowed:
    """The rows that may be filtered further, and whether those are all that there are."""

    rows: QuerySet[Any]
    is_all: bool


def newest(rows: QuerySet[Any], moment: str) -> Windowed:
    """At most ``WINDOW`` rows, the newest by ``moment``, which must have an index."""
    last = rows.order_by(f"-{moment}").values_list(moment, flat=True)[WINDOW : WINDOW + 1]
    edge = next(iter(last), None)
    return (
        Windowed(rows, is_all=True)
        if edge is None
        else Windowed(rows.filter(**{f"{moment}__gt": edge}), is_all=False)
    )


def of_state(rows: QuerySet[Any], state: int, moment: str, model: Any) -> Windowed:
    """All rows of a state where there are no more than ``WINDOW``, else those of it among the newest."""
    every = model._base_manager.using(rows.db).filter(state=state)
    if every.values("due_at")[: WINDOW + 1].count() > WINDOW:
        found = newest(rows, moment)
        return Windowed(found.rows.filter(state=state), found.is_all)
    # Not the column itself: where the state is rare, its index must be read and not that of the order.
    order = Coalesce(F(moment), F(moment)).desc()
    return Windowed(rows.filter(state=state).order_by(order, "-pk"), is_all=True)
