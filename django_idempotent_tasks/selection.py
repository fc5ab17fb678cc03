"""Which dead letters an action is for: all that match a filter, or those that were picked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from .models import DeadLetter, IdempotencyKey
from .states import Category, State

#: Dead letters that one selection may pick by hand.
PICKED_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class Selection:
    """Each field narrows it; with none given it is all of them. ``digests`` are those that were picked."""

    task: str | None = None
    scope: str | None = None
    signature: str | None = None
    category: int | None = None
    state: int | None = None
    ended_after: datetime | None = None
    ended_before: datetime | None = None
    digests: tuple[UUID, ...] | None = None

    def query(self, alias: str) -> QuerySet[DeadLetter]:
        """The dead letters that match now, in the order of their index: by signature, then by their end."""
        found = DeadLetter.objects.using(alias).filter(self._condition())
        return found.order_by("signature", "finished_at", "digest")

    def discarded(self, alias: str) -> QuerySet[IdempotencyKey]:
        """The same of those that were put away and are not pruned yet, what ended last first."""
        put_away = IdempotencyKey.objects.using(alias).filter(state=State.FAILED, discarded_at__isnull=False)
        return put_away.filter(self._condition()).order_by("-finished_at", "digest")

    def pages(self, alias: str, *, size: int) -> Iterator[list[DeadLetter]]:
        """All that match, each once, ``size`` at a time: memory and every query stay bounded."""
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
        for name in ("task", "scope", "signature", "category", "state"):
            value = getattr(self, name)
            if value is not None:
                condition &= Q(**{name: value})
        if self.ended_after is not None:
            condition &= Q(finished_at__gte=self.ended_after)
        if self.ended_before is not None:
            condition &= Q(finished_at__lte=self.ended_before)
        if self.digests is not None:
            condition &= Q(digest__in=self.digests)
        return condition

    def given(self) -> dict[str, Any]:
        """The fields that narrow it."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def encode(self) -> str:
        """JSON text."""
        return json.dumps(self.given(), default=str)

    @classmethod
    def decode(cls, text: str) -> Selection:
        """The selection of a stored text. Raises ValueError for one that this version cannot read."""
        stored: dict[str, Any] = json.loads(text)
        unknown = stored.keys() - {field.name for field in fields(cls)}
        if unknown:
            msg = f"The selection names {', '.join(sorted(unknown))}, which this version does not know."
            raise ValueError(msg)
        for name in ("ended_after", "ended_before"):
            if name in stored:
                stored[name] = datetime.fromisoformat(stored[name])
        if "digests" in stored:
            stored["digests"] = tuple(UUID(digest) for digest in stored["digests"])
        return cls(**stored)

    def words(self) -> str:
        """For people."""
        parts = [f"{name.replace('_', ' ')} {_word(name, value)}" for name, value in self.given().items()]
        return ", ".join(parts) or "all dead letters"


def _word(name: str, value: Any) -> str:
    match name:
        case "digests":
            return f"{len(value)} picked by hand"
        case "category":
            return Category(value).name.lower().replace("_", " ")
        case "state":
            return State(value).name
        case _:
            return str(value)
