"""Reads dead letters for the admin's list through their index, without reading the rows of the table."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest

from ...models import DeadLetter
from ...operations.groups import indexed
from ...operations.selection import Selection
from ...states import EXPECTED_FROM, State
from ..words.ledger import alias
from .finding import Looked, digests_of
from .window import Windowed, newest

#: How many dead letters a filter or a search without an index reads: those that ended last.
LOOKED_AT = 5000

#: Fields of a selection that the index of dead letters holds.
_INDEXED = {"signature", "ended_after", "ended_before"}


def dead_letters() -> QuerySet[DeadLetter]:
    """All dead letters, from their index."""
    return indexed(alias())


def expected() -> QuerySet[DeadLetter]:
    """The expected ends that nobody has discarded; they wait for nobody."""
    return DeadLetter.undecided.using(alias()).filter(signature__gte=EXPECTED_FROM)


def discarded() -> QuerySet[DeadLetter]:
    """The discarded dead letters that are not pruned yet."""
    return _failed().filter(discarded_at__isnull=False)


def other_one(object_id: str) -> DeadLetter | None:
    """The discarded dead letter, or the expected end, whose digest an address names; None without one."""
    try:
        return _failed().filter(signature__isnull=False, pk=UUID(object_id)).first()
    except ValueError:
        return None


def newest_discarded(rows: QuerySet[Any], limit: int) -> Windowed:
    """The rows among the ``limit`` FAILED keys that are pruned last: no index holds discarded ones alone."""
    return newest(rows, "due_at", limit, of=_failed())


def _failed() -> QuerySet[DeadLetter]:
    return DeadLetter._base_manager.using(alias()).filter(state=State.FAILED)


def searched(request: HttpRequest, text: str) -> set[UUID]:
    """The dead letters that a search names."""
    return digests_of(request, text, Looked(dead_letters(), "finished_at", LOOKED_AT))


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
