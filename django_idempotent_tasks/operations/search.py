"""Which keys a person means: by digest, by task and key text, or by filters; every look is bounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from ..identity.key import stated_digest
from ..ledger.moments import exact, shifted
from ..models import IdempotencyKey
from ..states import State

#: Filters look at so many keys, the newest: no index holds what they ask for.
WINDOW = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a person filters by; None is anything."""

    task: str | None = None
    scope: str | None = None
    state: State | None = None
    older_than: timedelta | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Wanted:
        """The filters among what a person stated; every other name is left alone."""
        return cls(**{name: options.get(name) for name in cls.__slots__})

    @property
    def has_filter(self) -> bool:
        """Whether rows are looked at that are not wanted. Age is a range of the index."""
        return not (self.task is None and self.scope is None and self.state is None)

    def in_columns(self) -> Q:
        """The condition on a row, but for its age."""
        columns = {"task": self.task, "scope": self.scope, "state": self.state}
        return Q(**{name: value for name, value in columns.items() if value is not None})

    def fits(self, row: IdempotencyKey, now: datetime) -> bool:
        """Whether a row is wanted, whatever its state."""
        return (
            (self.task is None or row.task == self.task)
            and (self.scope is None or row.scope == self.scope)
            and (self.older_than is None or exact(row.created_at) <= exact(now) - self.older_than)
        )


@dataclass(frozen=True, slots=True)
class Found:
    """Some keys, newest first. ``has_more``: the limit cut them. ``is_all``: every key was looked at."""

    rows: list[IdempotencyKey]
    has_more: bool
    is_all: bool


def newest(alias: str, wanted: Wanted, *, now: datetime, limit: int) -> Found:
    """The newest keys that are wanted, without their payload."""
    rows = IdempotencyKey.objects.using(alias).order_by("-created_at").defer("message", "result")
    if wanted.older_than is not None:
        rows = rows.filter(created_at__lte=shifted(now, -wanted.older_than))
    is_all = True
    if wanted.has_filter:
        edge = _edge(rows)
        is_all = edge is None
        rows = rows.filter(wanted.in_columns(), *([] if edge is None else [Q(created_at__gt=edge)]))
    found = list(rows[: limit + 1])
    return Found(found[:limit], len(found) > limit, is_all)


def _edge(rows: QuerySet[IdempotencyKey]) -> datetime | None:
    """When the first key was made that is too old to be looked at; None where there are not so many."""
    return next(iter(rows.values_list("created_at", flat=True)[WINDOW : WINDOW + 1]), None)


def by_digest(alias: str, digest: UUID) -> IdempotencyKey | None:
    """The row of a key."""
    return IdempotencyKey.objects.using(alias).filter(digest=digest).first()


def by_text(alias: str, wanted: Wanted, key: str) -> list[IdempotencyKey]:
    """The keys of a task that a person may mean by a text: an idempotency key, or the text in lists.

    Raises InvalidKey where the task's name or the text can be no part of a key.
    """
    digest = stated_digest(wanted.task or "", idempotency_key=key, scope=wanted.scope)
    keys = IdempotencyKey.objects.using(alias)
    edge = _edge(IdempotencyKey.objects.using(alias).order_by("-created_at"))
    texts = keys.filter(wanted.in_columns(), key_text=key).order_by("-created_at")
    if edge is not None:
        texts = texts.filter(created_at__gt=edge)
    found = {row.digest: row for row in [*keys.filter(digest=digest), *texts[:10]]}
    return list(found.values())
