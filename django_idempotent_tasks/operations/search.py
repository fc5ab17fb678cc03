"""Finds the keys that a person names by digest, by task and key text, or by filters; reads stay bounded."""

from __future__ import annotations

import re
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

#: How many keys a filter without an index reads: the newest.
WINDOW = 200_000
_INTEGER = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The filters of a person; None matches everything."""

    task: str | None = None
    scope: str | None = None
    state: State | None = None
    older_than: timedelta | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Wanted:
        """The filters among the options of a command."""
        return cls(**{name: options.get(name) for name in cls.__slots__})

    @property
    def has_filter(self) -> bool:
        """Whether a query reads rows that it then drops. The age alone is a range of an index."""
        return not (self.task is None and self.scope is None and self.state is None)

    def in_columns(self) -> Q:
        """The filters as a condition, without the age."""
        columns = {"task": self.task, "scope": self.scope, "state": self.state}
        return Q(**{name: value for name, value in columns.items() if value is not None})

    def fits(self, row: IdempotencyKey, now: datetime) -> bool:
        """Whether a row matches, apart from its state."""
        return (
            (self.task is None or row.task == self.task)
            and (self.scope is None or row.scope == self.scope)
            and (self.older_than is None or exact(row.created_at) <= exact(now) - self.older_than)
        )


@dataclass(frozen=True, slots=True)
class Found:
    """Some keys, newest first. ``has_more``: the limit cut some off. ``is_all``: every key was read."""

    rows: list[IdempotencyKey]
    has_more: bool
    is_all: bool


def newest(alias: str, wanted: Wanted, *, now: datetime, limit: int) -> Found:
    """The newest keys that match, without their payload."""
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
    """When the newest key outside ``WINDOW`` was made; None where ``WINDOW`` holds all keys."""
    return next(iter(rows.values_list("created_at", flat=True)[WINDOW : WINDOW + 1]), None)


def by_digest(alias: str, digest: UUID) -> IdempotencyKey | None:
    """The row of a key."""
    return IdempotencyKey.objects.using(alias).filter(digest=digest).first()


def by_text(alias: str, wanted: Wanted, key: str) -> list[IdempotencyKey]:
    """The keys of a task that match a text: as the value that the call was given, or as lists show the key.

    Raises InvalidKey where the task's name or the text cannot be part of a key.
    """
    task, scope = wanted.task or "", wanted.scope
    digests = [stated_digest(task, idempotency_key=value, scope=scope) for value in meant_by(key)]
    keys = IdempotencyKey.objects.using(alias)
    edge = _edge(IdempotencyKey.objects.using(alias).order_by("-created_at"))
    texts = keys.filter(wanted.in_columns(), key_text=key).order_by("-created_at")
    if edge is not None:
        texts = texts.filter(created_at__gt=edge)
    found = {row.digest: row for row in [*keys.filter(digest__in=digests), *texts[:10]]}
    return list(found.values())


def meant_by(text: str) -> list[str | int]:
    """The values of a key that a person may have meant: the text, and the number that it writes."""
    return [text, int(text)] if _INTEGER.fullmatch(text) else [text]
