"""Batches on one of the tests' databases: their chunks, how these ended, and what failed of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from celery import Celery
from celery.app import app_or_default

from django_idempotent_tasks.ledger import batches
from django_idempotent_tasks.ledger.batch_values import NO_OUTCOME, OK, OUTCOMES, RecordFailure
from django_idempotent_tasks.ledger.moments import database_now
from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.models import Batch, BatchChunk
from django_idempotent_tasks.operations.tasks import known_task
from django_idempotent_tasks.states import Category
from django_idempotent_tasks.testing.contract.batch_bench import SIZE, BatchBench
from tests.support.post import Post

#: A message of a chunk's call, without its records.
TEMPLATE = '{"v": 1, "args": [], "kwargs": {}, "options": {}}'
_CATEGORIES = {letter: category for category, letter in OUTCOMES.items()}


class Batches(BatchBench):
    """Batches on one of the tests' databases."""

    def __init__(self, alias: str = "default") -> None:
        self._alias = alias

    def store(self) -> LedgerStore:
        return get_store(self._alias)

    def of(self, *outcomes: str, **columns: Any) -> tuple[Batch, list[Call]]:
        """A sealed batch without calls to come after it, with a chunk for each of these texts.

        A chunk that has an outcome for each record has ended; of each record that failed it is kept how.
        """
        batch, calls = self.sealed(len(outcomes), callback=None, on_attention=None, template=TEMPLATE)
        chunks = BatchChunk.objects.using(self.alias).filter(batch_id=batch)
        for place, (text, call) in enumerate(zip(outcomes, calls, strict=True)):
            chunks.filter(place=place).update(outcomes=text)
            if NO_OUTCOME not in text:
                self.ended(call)
            for number, letter in enumerate(text):
                if letter in _CATEGORIES:
                    self.failing(batch, place * SIZE + number, _CATEGORIES[letter])
        self.settled(batch)
        if columns:
            Batch.objects.using(self.alias).filter(pk=batch).update(**columns)
        return self.batch_row(batch), calls

    def failing(self, batch: UUID, index: int, category: Category, **changes: Any) -> None:
        """Keep how a record failed."""
        facts: dict[str, Any] = {
            "place": index // SIZE,
            "attempt": 1,
            "error": "builtins.ValueError",
            "description": f"no {index}",
            "signature": f"{int(category):016x}",
            "value": f'{{"n": {index}}}',
        }
        self.store().keep_record(batch, RecordFailure(index, category=category, **{**facts, **changes}))

    def now_of_database(self) -> datetime:
        """The time of the ledger."""
        return database_now(self.store())

    def settled(self, batch: UUID) -> None:
        """Let the batch be where its chunks are."""
        assert batches.settle(self.store(), batch) == []


@pytest.fixture
def register(post: Post) -> Iterator[Any]:
    """A task of the project under the name that these batches have."""

    def run(self: Any, records: list[Any]) -> int:  # noqa: ARG001
        return len(records)

    with as_the_project_s(post.app):
        yield post.task(run, name="shop.register", bind=True, reserve=False, key="records", mode="leased")


@contextmanager
def as_the_project_s(app: Celery) -> Iterator[None]:
    """This app is the current one, whose tasks a door knows."""
    known_task("")  # once a process the project's own modules are imported
    before = app_or_default()
    app.set_current()
    try:
        yield
    finally:
        before.set_current()


__all__ = ["OK", "Batches", "register"]
