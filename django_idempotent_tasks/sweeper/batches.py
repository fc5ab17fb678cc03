"""Follows chunks whose process died before it did so, and ends, cancels and counts their batches."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from celery import Celery
from django.db import Error as DatabaseError

from ..conf import settings
from ..ledger import batches
from ..ledger.moments import database_now
from ..ledger.stores import LedgerStore
from ..ledger.values import Call
from .bite import Bite

logger = logging.getLogger("django_idempotent_tasks")

#: Chunks that one statement looks at, batches, chunks that one statement cancels, and statements a batch. Who
#: cancels a batch cancels its chunks; here are those that were missed.
BITE, BATCHES, CANCELS, MOST_CANCELS = 1000, 100, 500, 10


@dataclass(frozen=True, slots=True)
class Followed:
    """How many calls a bite has reserved, which are due, and whether the next bite may follow at once."""

    reserved: int
    goes_on: bool


@dataclass(slots=True)
class Following:
    """Looks at all chunks that hold a batch, a page at a time, and then at the batches themselves.

    A look that is broken off goes on where it was.
    """

    app: Celery
    _bite: Bite = field(default_factory=lambda: Bite(BITE))
    _after: tuple[int, UUID, int] | None = None

    def go_on(self, store: LedgerStore) -> Followed:
        """Do one bite. Raises what the database raises."""
        page = self._bite.take(lambda size: store.lagging_chunks(after=self._after, bite=size))
        if page is None:
            return Followed(0, goes_on=True)
        self._after = page.after
        reserved = self._settle(store, sorted(store.follow_chunks(page.digests)))
        if page.after is None:
            reserved += self.look_at_batches(store)
        return Followed(reserved, goes_on=page.after is not None)

    def look_at_batches(self, store: LedgerStore) -> int:
        """Cancel and settle what the look at chunks may pass over; how many calls were reserved."""
        for batch in store.cancelled_batches(bite=BATCHES):
            _cancel_rest(store, batch)
        return self._settle(store, store.unsettled_batches(bite=BATCHES))

    def _settle(self, store: LedgerStore, found: Iterable[UUID]) -> int:
        calls = [call for batch in found for call in _settled(store, batch)]
        batches.publish(self.app, store, calls, send=False)
        return len(calls)


def _settled(store: LedgerStore, batch: UUID) -> list[Call]:
    """What settling reserved. Of a batch that the database refuses the next look tries again."""
    try:
        return batches.settle(store, batch)
    except DatabaseError as error:
        logger.warning("The batch %s was not settled: %r", batch, error)
        database_now(store)  # raises where it is not this batch alone
        return []


def _cancel_rest(store: LedgerStore, batch: UUID) -> None:
    """Cancel the chunks of a cancelled batch that have not begun. Such a batch has no callback."""
    after, window = -1, settings().redelivery_window
    for _ in range(MOST_CANCELS):
        chunks = store.open_chunks(batch, after=after, bite=CANCELS)
        if not chunks:
            break
        after = chunks[-1].place
        store.cancel_waiting([chunk.task_id for chunk in chunks], window=window)
        store.follow_chunks([chunk.digest for chunk in chunks])
