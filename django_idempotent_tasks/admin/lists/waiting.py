"""Reads dead letters for the admin's list through their index, without reading the rows of the table."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from ...models import DeadLetter
from ...operations.groups import indexed
from ...operations.selection import Selection
from ...states import State
from ..words.ledger import alias
from .window import Windowed, newest

#: Fields of a selection that the index of dead letters holds.
_INDEXED = {"signature", "ended_after", "ended_before"}


def dead_letters() -> QuerySet[DeadLetter]:
    """All dead letters, from their index."""
    return indexed(alias())


def discarded() -> QuerySet[DeadLetter]:
    """The discarded dead letters that are not pruned yet."""
    return _failed().filter(discarded_at__isnull=False)


def discarded_one(object_id: str) -> DeadLetter | None:
    """The discarded dead letter whose digest an address names; None without one."""
    try:
        return discarded().filter(pk=UUID(object_id)).first()
    except ValueError:
        return None


def newest_discarded(rows: QuerySet[Any], limit: int) -> Windowed:
    """The rows among the ``limit`` FAILED keys that are pruned last: no index holds discarded ones alone."""
    return newest(rows, "due_at", limit, of=_failed())


def _failed() -> QuerySet[DeadLetter]:
    return DeadLetter._base_manager.using(alias()).filter(state=State.FAILED)


def selected(selection: Selection) -> QuerySet[Any]:
    """The dead letters of a selection; from the index where it holds all fields of the selection."""
    given = selection.given()
    if given.keys() - _INDEXED:
        return selection.query(alias())
    names = {"signature": "signature", "ended_after": "finished_at__gte", "ended_before": "finished_at__lte"}
    return dead_letters().filter(**{names[name]: value for name, value in given.items()})


def last_ended(rows: QuerySet[DeadLetter], number: int) -> QuerySet[DeadLetter]:
    """The ``number`` rows that ended last; a few more where several ended at one moment."""
    last = rows.order_by("-finished_at").values_list("finished_at", flat=True)[number - 1 : number]
    edge = next(iter(last), None)
    return rows if edge is None else rows.filter(finished_at__gte=edge)
