"""Helpers for promises about batches: a batch with chunks, whose calls are reserved, and their ends."""
# ruff: noqa: S101  promises are asserted

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from django.db.models import Model

from ...ledger.batch_values import BatchEntry, NewBatch, NewChunk, RecordFailure, Settled
from ...ledger.values import Call, Claim
from ...models import Batch, BatchChunk, BatchRecord, BatchState, ChunkState
from ...states import Category
from .meeting import Meeting

#: Records of a chunk, and the seconds for which an ended batch is kept.
SIZE, KEPT = 3, 7000

CALLBACK, ON_ATTENTION = '{"task": "shop.done"}', '{"task": "shop.look"}'


def a_record(
    index: int = 0, category: Category = Category.FATAL, *, attempt: int = 1, value: str | None = '{"n": 1}'
) -> RecordFailure:
    """What is kept of a record that failed."""
    return RecordFailure(index, 0, category, attempt, "builtins.ValueError", "no", "0123456789abcdef", value)


class BatchBench(Meeting):
    """The words of the promises about batches."""

    # -- making things --

    def batch(self, **changes: str | None) -> UUID:
        """A new batch that is being submitted."""
        new = self.new_batch(uuid4(), **changes)
        assert self.store().add_batch(new), "the batch was refused"
        return new.id

    @staticmethod
    def new_batch(batch: UUID, **changes: str | None) -> NewBatch:
        """A batch that is to be added."""
        texts = {"callback": CALLBACK, "on_attention": ON_ATTENTION, "scope": None, **changes}
        return NewBatch(batch, "shop.register", key_text="upload-17", chunk_size=SIZE, **texts)

    def chunk(self, place: int = 0, *, of: Call | None = None, size: int = SIZE) -> NewChunk:
        """A chunk that is to be added, of the key of a call."""
        digest = (of or self.call()).identity.digest
        return NewChunk(place, digest, f"chunk-{place}", place * SIZE, size, uuid4())

    def sealed(self, chunks: int = 1, **changes: str | None) -> tuple[UUID, list[Call]]:
        """A batch with all its chunks in, and their reserved calls."""
        batch = self.batch(**changes)
        calls = [self.reserved(self.call(f"chunk-{place}")) for place in range(chunks)]
        self.store().add_chunks(batch, [self.chunk(place, of=call) for place, call in enumerate(calls)])
        assert self.store().seal_batch(batch, records=chunks * SIZE, chunks=chunks), "it was not sealed"
        return batch, calls

    # -- what happens --

    def ended(self, *calls: Call) -> None:
        """Run these calls to their ends, and let their chunks follow."""
        for call in calls:
            self.completed(self.started(call))
        self.follow(*calls)

    def holding_chunk(self, call: Call) -> Claim:
        """Start this call, as whose owner its chunk's outcomes may be written."""
        claim = self.started(call)
        assert self.store().hold_chunk(claim) is not None, "the chunk was not held"
        return claim

    def failed_chunk(self, call: Call) -> Claim:
        """Run this call to a dead letter, and let its chunk follow."""
        claim = self.failed(self.started(call))
        self.follow(call)
        return claim

    @contextmanager
    def before_write(self, model: type[Model], work: Callable[[], None]) -> Iterator[None]:
        """Do this once, right before the store's next statement that writes to this table."""
        if not self.has_row_locks:
            raise unittest.SkipTest("one writer at a time: nobody else comes between")
        table, is_done = model._meta.db_table, False

        def meanwhile(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:  # noqa: FBT001  Django's own
            nonlocal is_done
            if not is_done and table in sql and not sql.lstrip().startswith("SELECT"):
                is_done = True
                work()
            return execute(sql, params, many, context)

        with self.store().connection.execute_wrapper(meanwhile):
            yield
        assert is_done, f"nothing was written to {table}"

    def follow(self, *calls: Call) -> set[UUID]:
        """Let the chunks of these calls follow their keys."""
        return self.store().follow_chunks([call.identity.digest for call in calls])

    def settle(self, batch: UUID) -> Settled:
        """Settle in a transaction, as the ledger does."""
        with self.store().together():
            return self.store().settle_batch(batch, kept=KEPT)

    # -- looking --

    def batch_row(self, batch: UUID) -> Batch:
        """The batch with all its columns."""
        return Batch.objects.using(self.alias).get(id=batch)

    def begun_before(self, *batches: UUID) -> None:
        """Let these batches have begun in this order."""
        for place, batch in enumerate(batches):
            begun = datetime(2024, 1, 1, place, tzinfo=UTC)
            Batch.objects.using(self.alias).filter(id=batch).update(created_at=begun)

    def state_of(self, batch: UUID) -> BatchState:
        """Where the batch stands."""
        return BatchState(self.batch_row(batch).state)

    def chunk_rows(self, batch: UUID) -> list[BatchChunk]:
        """Its chunks in their order."""
        return list(BatchChunk.objects.using(self.alias).filter(batch_id=batch).order_by("place"))

    def chunk_states(self, batch: UUID) -> list[ChunkState]:
        """Where its chunks stand, in their order."""
        return [ChunkState(chunk.state) for chunk in self.chunk_rows(batch)]

    def outcomes(self, batch: UUID) -> list[str]:
        """The outcomes of its chunks, in their order."""
        return [chunk.outcomes for chunk in self.chunk_rows(batch)]

    def records_of(self, batch: UUID) -> Sequence[BatchRecord]:
        """Its records that failed, in their order."""
        return list(BatchRecord.objects.using(self.alias).filter(batch_id=batch).order_by("index"))

    def entry_of(self, batch: UUID) -> BatchEntry:
        """The batch as a submitter locks it."""
        with self.store().together():
            entry = self.store().lock_batch(batch)
        assert entry is not None, "the batch has no row"
        return entry
