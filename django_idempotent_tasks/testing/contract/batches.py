"""Promises about the submission of batches: each chunk is in it once, however many submit."""
# ruff: noqa: S101, PLR2004  promises are asserted, in plain numbers

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

from django.db import DatabaseError, IntegrityError, transaction

from ...ledger.batch_values import NewBatch
from ...ledger.stores.clock import shifted
from ...models import Batch, BatchState, ChunkState
from .batch_bench import KEPT, SIZE, BatchBench


class SubmittedBatches(BatchBench):
    """A batch gets its chunks, and is sealed."""

    def test_a_batch_is_added_once_and_keeps_what_it_was_given(self) -> None:
        texts = ("", "a ", "A", "東🧾" * 60, "%s {key} '\"\\", None)
        for number, text in enumerate(texts):
            new = NewBatch(uuid4(), "shop.register", text, f"k{number}%s ", 50, text, text)
            assert self.store().add_batch(new) is True
            assert self.store().add_batch(replace(new, task="other", scope="other", callback="x")) is False
            row = self.batch_row(new.id)
            assert (row.task, row.scope, row.key_text) == ("shop.register", text, f"k{number}%s ")
            assert (row.callback, row.on_attention, row.chunk_size) == (text, text, 50)
            assert (row.state, row.revision, row.records, row.chunks) == (BatchState.SUBMITTING, 1, 0, 0)
            assert not any((row.sealed_at, row.attention_at, row.finished_at, row.called_at, row.due_at))

    def test_of_simultaneous_submitters_one_adds_the_batch(self) -> None:
        new = NewBatch(uuid4(), "shop.register", None, "upload-17", SIZE)
        assert sorted(self.all_at_once(lambda store: store.add_batch(new))) == [False] * 5 + [True]

    def test_a_batch_that_is_there_already_costs_nothing_else_of_the_transaction(self) -> None:
        new = NewBatch(uuid4(), "shop.register", None, "upload-17", SIZE)
        with transaction.atomic(using=self.alias):
            assert self.store().add_batch(new) is True
            assert self.store().add_batch(new) is False
            call = self.reserved()
        assert Batch.objects.using(self.alias).filter(id=new.id).exists()
        assert self.seen(call).task_id == call.task_id

    def test_who_locks_a_batch_reads_how_it_stands(self) -> None:
        batch = self.batch(scope="t1")
        entry = self.entry_of(batch)
        assert (entry.id, entry.state, entry.revision) == (batch, BatchState.SUBMITTING, 1)
        assert (entry.task, entry.scope, entry.key_text) == ("shop.register", "t1", "upload-17")
        assert (entry.chunk_size, entry.records, entry.chunks) == (SIZE, 0, 0)
        assert (entry.is_sealed, entry.is_past) == (False, False)
        batch, calls = self.sealed(2)
        entry = self.entry_of(batch)
        assert (entry.is_sealed, entry.records, entry.chunks) == (True, 2 * SIZE, 2)
        self.ended(*calls)
        self.settle(batch)
        with shifted(KEPT - 100):
            assert self.entry_of(batch).is_past is False
        with shifted(KEPT + 1):
            assert self.entry_of(batch).is_past is True

    def test_a_batch_without_a_row_cannot_be_locked(self) -> None:
        with self.store().together():
            assert self.store().lock_batch(uuid4()) is None

    def test_of_two_submitters_the_second_waits_for_the_group_of_the_first(self) -> None:
        batch = self.batch()
        with self.open_transaction():
            assert self.store().lock_batch(batch)
            with self.second_store() as second, suppress(DatabaseError), second.together():
                second.lock_batch(batch)
                raise AssertionError("it did not wait")

    def test_chunks_are_found_by_their_places(self) -> None:
        batch, other = self.batch(), self.batch()
        chunks = [self.chunk(place) for place in range(4)]
        self.store().add_chunks(batch, chunks)
        self.store().add_chunks(other, [self.chunk(2)])
        found = self.store().chunks_at(batch, [0, 2, 7])
        assert found == {0: chunks[0].fingerprint, 2: chunks[2].fingerprint}
        assert self.store().chunks_at(batch, []) == {}
        assert self.store().next_place(batch) == 4
        assert self.store().next_place(uuid4()) == 0

    def test_a_chunk_is_kept_as_it_is(self) -> None:
        batch = self.batch()
        plain, picked = self.chunk(0), replace(self.chunk(1, size=2), indexes=(5, 1))
        self.store().add_chunks(batch, [plain, picked])
        for chunk in (plain, picked):
            found = self.store().chunk_of(chunk.digest)
            assert found is not None
            assert (found.batch, found.place, found.task_id) == (batch, chunk.place, chunk.task_id)
            assert (found.first, found.size, found.indexes) == (chunk.first, chunk.size, chunk.indexes)
            assert (found.digest, found.state) == (chunk.digest, ChunkState.OPEN)
            assert found.outcomes == "." * chunk.size
        assert self.store().chunk_of(uuid4()) is None

    def test_more_chunks_are_added_than_one_statement_takes(self) -> None:
        batch = self.batch()
        self.store().add_chunks(batch, [self.chunk(place) for place in range(1001)])
        self.store().add_chunks(batch, [])
        assert self.store().next_place(batch) == 1001
        assert len(self.chunk_rows(batch)) == 1001

    def test_a_place_is_taken_once(self) -> None:
        batch = self.batch()
        self.store().add_chunks(batch, [self.chunk()])
        with suppress(IntegrityError), transaction.atomic(using=self.alias):
            self.store().add_chunks(batch, [self.chunk()])
            raise AssertionError("a place was taken twice")
        self.store().add_chunks(self.batch(), [self.chunk()])

    def test_a_batch_is_sealed_once(self) -> None:
        batch, beside = self.batch(), self.batch()
        assert self.store().seal_batch(batch, records=7, chunks=3) is True
        assert self.store().seal_batch(batch, records=8, chunks=4) is False
        row = self.batch_row(batch)
        assert (row.state, row.records, row.chunks, row.revision) == (BatchState.RUNNING, 7, 3, 1)
        assert row.sealed_at is not None
        assert row.sealed_at - row.created_at < timedelta(seconds=60)
        assert self.state_of(beside) is BatchState.SUBMITTING

    def test_a_cancelled_batch_is_not_sealed(self) -> None:
        batch = self.batch()
        assert self.store().cancel_batch(batch, by="ann", reason="wrong file") is True
        assert self.store().seal_batch(batch, records=7, chunks=3) is False
        assert self.state_of(batch) is BatchState.CANCELLED

    def test_open_chunks_are_read_in_their_order_a_bite_at_a_time(self) -> None:
        batch, calls = self.sealed(5)
        self.sealed(2)
        self.ended(calls[1])
        store = self.store()
        assert [chunk.place for chunk in store.open_chunks(batch, after=-1, bite=2)] == [0, 2]
        assert [chunk.place for chunk in store.open_chunks(batch, after=2, bite=9)] == [3, 4]
        assert store.open_chunks(batch, after=4, bite=9) == []
