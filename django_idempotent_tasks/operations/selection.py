"""Selects dead letters for an action: those that match filters, or those that a person picked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils.timezone import is_aware
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import DEAD, DeadLetter, IdempotencyKey, StateAmong
from ..states import EXPECTED_FROM, Category, State

#: How many dead letters a person may pick for one selection.
PICKED_LIMIT = 10_000
#: Years that every database can hold and compare, in any time zone.
YEARS = range(1900, 9001)
#: Characters that no text column can hold.
NOT_IN_A_COLUMN = re.compile(r"[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters for dead letters; without any it is all of them. ``digests``: those that a person picked.

    Expected ends are among them only where their category or signature is asked for, or a person picked them.
    """

    task: str | None = None
    scope: str | None = None
    signature: str | None = None
    category: int | None = None
    state: int | None = None
    ended_after: datetime | None = None
    ended_before: datetime | None = None
    digests: tuple[UUID, ...] | None = None

    def __post_init__(self) -> None:
        if self.digests is not None and len(self.digests) > PICKED_LIMIT:
            msg = f"At most {PICKED_LIMIT:,} dead letters can be picked by hand: narrow it with a filter."
            raise ValueError(msg)

    def query(self, alias: str) -> QuerySet[DeadLetter]:
        """The dead letters that match now, in the order of their index: by signature, then by their end."""
        found = self.rows(alias).filter(self._condition())
        return found.order_by("signature", "finished_at", "digest")

    def rows(self, alias: str) -> QuerySet[DeadLetter]:
        """The rows among which the filters choose."""
        is_named = self.category == Category.EXPECTED or (self.signature or "").startswith(EXPECTED_FROM)
        is_wider = is_named or self.digests is not None
        return (DeadLetter.undecided if is_wider else DeadLetter.objects).using(alias)

    def discarded(self, alias: str) -> QuerySet[IdempotencyKey]:
        """The discarded ones that match and are not pruned yet, the last ended first."""
        found = IdempotencyKey.objects.using(alias).filter(state=State.FAILED, discarded_at__isnull=False)
        return found.filter(self._condition()).order_by("-finished_at", "digest")

    def pages(self, alias: str, *, size: int) -> Iterator[list[DeadLetter]]:
        """All dead letters that match, each once, in pages of ``size``: memory and queries stay bounded."""
        found, after = self.query(alias), Q()
        while page := list(found.filter(after)[:size]):
            yield page
            last = page[-1]
            later = Q(finished_at__gt=last.finished_at)
            beside = Q(finished_at=last.finished_at, digest__gt=last.digest)
            further = Q(signature__gt=last.signature) | Q(later | beside, signature=last.signature)
            after = Q(further, signature__gte=last.signature)

    def _condition(self) -> Q:
        condition = Q()
        for name in ("task", "scope", "signature", "category"):
            value = getattr(self, name)
            if value is not None:
                condition &= Q(**{name: value})
        if self.state is not None:
            # Few are in review at a time: the index of the state finds them. Nearly all have failed.
            is_rare = self.state == State.REVIEW
            condition &= Q(state=self.state) if is_rare else Q(StateAmong(self.state))
        if self.ended_after is not None:
            condition &= Q(finished_at__gte=self.ended_after)
        if self.ended_before is not None:
            condition &= Q(finished_at__lte=self.ended_before)
        if self.digests is not None:
            condition &= Q(digest__in=self.digests)
        return condition

    def given(self) -> dict[str, Any]:
        """The fields that are set."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def encode(self) -> str:
        """JSON text."""
        return json.dumps(self.given(), default=str)

    @classmethod
    def decode(cls, text: str) -> Selection:
        """The selection that a text stores. Raises ValueError for a text that this version cannot read."""
        try:
            stored = json.loads(text)
        except RecursionError:
            stored = None
        if not isinstance(stored, dict):
            msg = "The selection is not a JSON object."
            raise ValueError(msg)  # noqa: TRY004  readers catch one kind of error
        unknown = stored.keys() - _READERS.keys()
        if unknown:
            msg = f"The selection names {', '.join(sorted(unknown))}, which this version does not know."
            raise ValueError(msg)
        return cls(**{name: _read(name, value) for name, value in stored.items()})

    def words(self) -> str:
        """The selection in words, for people."""
        parts = [str(_NAMES[name]) % {"value": _word(name, value)} for name, value in self.given().items()]
        return ", ".join(parts) or _("all dead letters")


_NAMES = {
    "task": gettext_lazy("task %(value)s"),
    "scope": gettext_lazy("scope %(value)s"),
    "signature": gettext_lazy("signature %(value)s"),
    "category": gettext_lazy("category %(value)s"),
    "state": gettext_lazy("state %(value)s"),
    "ended_after": gettext_lazy("ended after %(value)s"),
    "ended_before": gettext_lazy("ended before %(value)s"),
    "digests": gettext_lazy("%(value)s picked by hand"),
}


def _word(name: str, value: Any) -> str:
    match name:
        case "digests":
            return f"{len(value):,}"
        case "category":
            return Category(value).name.lower().replace("_", " ")
        case "state":
            return State(value).name
        case "ended_after" | "ended_before":
            return str(value.isoformat(" ", "seconds"))
        case _:
            return str(value)


def _read(name: str, value: Any) -> Any:
    try:
        return _READERS[name](value)
    except (TypeError, AttributeError, ValueError):
        msg = f"The selection has a wrong {name}: {value!r:.80}"
        raise ValueError(msg) from None


def _text(value: Any) -> str:
    if not isinstance(value, str) or NOT_IN_A_COLUMN.search(value):
        raise ValueError
    return value


def _category(value: Any) -> int:
    return int(Category(_number(value)))


def _state(value: Any) -> int:
    if _number(value) not in DEAD:
        raise ValueError
    return int(value)


def _number(value: Any) -> int:
    if type(value) is not int:  # JSON's true and 4.0 would pass as numbers
        raise ValueError
    return value


def _moment(value: Any) -> datetime:
    moment = datetime.fromisoformat(value)
    if moment.year not in YEARS or is_aware(moment) != settings.USE_TZ:
        raise ValueError
    return moment


def _digests(value: Any) -> tuple[UUID, ...]:
    if not isinstance(value, list):
        raise TypeError
    return tuple(UUID(digest) for digest in value)


#: How each field of a stored text is read; each raises ValueError, TypeError or AttributeError.
_READERS: dict[str, Callable[[Any], Any]] = {
    "task": _text,
    "scope": _text,
    "signature": _text,
    "category": _category,
    "state": _state,
    "ended_after": _moment,
    "ended_before": _moment,
    "digests": _digests,
}
