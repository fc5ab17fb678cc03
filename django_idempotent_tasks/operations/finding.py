"""Finds what one search box names: an id, a digest, the value of a key, a task's short name, or a scope.

Ids, digests and values of keys are looked up in indexes, whatever their age; the rest among the newest rows.
A value that a person may not see, or that ``REDACT`` hides, finds nothing: else the box would tell it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models import Max, Model, Q, QuerySet

from ..exceptions import InvalidKey
from ..identity.key import stated_digest
from ..identity.text import KEY_TEXT_LENGTH, public_text, value_text
from ..models import AnsweredCall, DuplicateAttempt, FailedJob, FollowUp, IdempotencyKey
from .search import meant_by
from .selection import NOT_IN_A_COLUMN
from .task_names import guarded_names, named_so

#: How many of the newest rows a search reads that no index answers, and how many rows it finds.
READ, MOST = 100_000, 100
#: From so many characters on a search also finds a part of a word.
LONG = 5
#: How many digests of a value are looked up: one for each task and form of the value.
TRIED = 600
#: The tables whose task ids have an index.
_WITH_TASK_IDS: tuple[type[Model], ...] = (IdempotencyKey, AnsweredCall, FailedJob, FollowUp)
_HEX = re.compile(r"[0-9a-f]{8,31}")


@dataclass(frozen=True)
class Term:
    """What a person typed, in a scope that was chosen beside; ``values``: whether arguments may be seen."""

    alias: str
    text: str
    scope: str | None = None
    values: bool = True

    @property
    def is_blank(self) -> bool:
        """Whether no column can hold it, so that nothing is found."""
        return not self.text or bool(NOT_IN_A_COLUMN.search(self.text))

    @property
    def is_an_id(self) -> bool:
        """Whether it is a whole UUID: what an index finds by one needs no further search."""
        return _uuid(self.text) is not None

    @cached_property
    def tasks(self) -> list[str]:
        """The guarded tasks that are known, read once."""
        return guarded_names(self.alias)

    def is_shown_in(self, key_text: str, digest: UUID) -> bool:
        """Whether this person reads the text in a key's text."""
        if not self.values and public_text(key_text, digest) != key_text:
            return False
        if len(self.text) > KEY_TEXT_LENGTH:
            return value_text(self.text) in key_text
        return re.search(_as_word(self.text), key_text) is not None


@dataclass(frozen=True, slots=True)
class Hits:
    """The primary keys that were found, up to ``MOST`` from the newest ``read`` rows (0: by index alone)."""

    found: tuple[Any, ...] = ()
    read: int = 0
    has_more: bool = False


def by_index(term: Term) -> set[UUID]:
    """The digests of keys that a term names by a task id, by a digest or its beginning, or by a value."""
    if term.is_blank:
        return set()
    return _by_id(term.alias, term.text) | _by_digest(term.alias, term.text) | _by_value(term)


def among_the_newest(rows: QuerySet[Any], moment: str, term: Term, *, read: int) -> Hits:
    """Those of the newest ``read`` rows, by ``moment``, whose task, scope or key text the term names."""
    if term.is_blank:
        return Hits()
    newest = rows.order_by(f"-{moment}")
    edge = next(iter(newest.values_list(moment, flat=True)[read : read + 1]), None)
    if edge is not None:
        newest = newest.filter(**{f"{moment}__gt": edge})
    found = list(newest.filter(_in_columns(term)).values_list("pk", flat=True)[: MOST + 1])
    return Hits(tuple(found[:MOST]), read, len(found) > MOST)


def _in_columns(term: Term) -> Q:
    """The condition on the columns ``scope``, ``task`` and ``key_text``."""
    text = Q(key_text=term.text) | Q(key_text__contains=term.text)
    if len(term.text) < LONG:
        text &= Q(key_text__regex=_as_word(term.text))
    if not term.values:
        text &= ~Q(key_text__contains="=")  # what is made of arguments has a name and this sign in it
    return text | Q(scope=term.text) | Q(task__in=named_so(term.tasks, term.text))


def _as_word(text: str) -> str:
    """A pattern that Python's and each database's regular expressions read alike."""
    return f"(^|[^0-9A-Za-z]){re.escape(text)}($|[^0-9A-Za-z])"


def _by_id(alias: str, text: str) -> set[UUID]:
    found = [
        model._base_manager.using(alias)
        .filter(task_id=text, digest__isnull=False)
        .values_list("digest", flat=True)
        for model in _WITH_TASK_IDS
    ]
    refused = newest_of(DuplicateAttempt.objects.using(alias)).filter(task_id=text)
    of_refused = refused.order_by("-id").values_list("digest", flat=True)[:MOST]
    return {*found[0].union(*found[1:])[:MOST], *of_refused}


def newest_of(rows: QuerySet[Any]) -> QuerySet[Any]:
    """The newest ``READ`` rows of a table whose ids grow: not every column has an index."""
    newest = rows.aggregate(newest=Max("id"))["newest"] or 0
    return rows.filter(id__gt=newest - READ)


def _by_digest(alias: str, text: str) -> set[UUID]:
    whole = _uuid(text)
    if whole is not None:
        return {whole}
    start = text.lower()
    if not _HEX.fullmatch(start) or connections[alias].vendor == "mysql":  # MariaDB sorts UUIDs otherwise
        return set()
    among = (UUID(start.ljust(32, "0")), UUID(start.ljust(32, "f")))
    rows = IdempotencyKey.objects.using(alias).filter(digest__range=among)
    return set(rows.values_list("digest", flat=True)[:MOST])


def _by_value(term: Term) -> set[UUID]:
    """Keys of any age: the digest is computed for each task, as if the value were given, or one argument."""
    scopes = {None, term.scope}
    tried = [
        digest
        for name in term.tasks
        for value in meant_by(term.text)
        for scope in scopes
        if (digest := _stated(name, value, scope)) is not None
    ]
    rows = IdempotencyKey.objects.using(term.alias).filter(pk__in=tried[:TRIED])
    return {
        digest
        for digest, key_text in rows.values_list("digest", "key_text")
        if term.is_shown_in(key_text, digest)
    }


def _stated(name: str, value: object, scope: str | None) -> UUID | None:
    try:
        return stated_digest(name, idempotency_key=value, scope=scope)
    except InvalidKey:  # no key can have this value
        return None


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
