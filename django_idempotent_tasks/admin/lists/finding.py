"""Finds keys for a search: by task id, by digest, or by key text within a task. Equality only."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from ...exceptions import InvalidKey
from ...models import AnsweredCall, FailedJob, IdempotencyKey
from ...operations.search import Wanted, by_text
from ...operations.selection import NOT_IN_A_COLUMN
from ..words.ledger import alias

#: How many keys one search finds.
MOST = 100


def digests_of(term: str, *, task: str | None = None, scope: str | None = None) -> set[UUID]:
    """The keys that a term names. Each query uses an index; a key's text is searched within a task only."""
    term = term.strip()
    if not term or NOT_IN_A_COLUMN.search(term):
        return set()
    using, found = alias(), _digest(term)
    models: tuple[Any, ...] = (IdempotencyKey, AnsweredCall, FailedJob)
    for model in models:
        rows = model.objects.using(using).filter(task_id=term, digest__isnull=False)
        found.update(rows.values_list("digest", flat=True)[:MOST])
    if task:
        found |= _by_text(using, Wanted(task=task, scope=scope), term)
    return found


def _digest(term: str) -> set[UUID]:
    try:
        return {UUID(term)}
    except ValueError:
        return set()


def _by_text(using: str, wanted: Wanted, term: str) -> set[UUID]:
    try:
        return {row.digest for row in by_text(using, wanted, term)}
    except InvalidKey:  # no key can have this text
        return set()
