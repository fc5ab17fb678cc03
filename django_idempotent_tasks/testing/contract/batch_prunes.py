"""The promises about batches past their time: nothing of them stays, and of no other batch a row goes."""
# ruff: noqa: S101, PLR2004  promises are asserted, in plain numbers

from __future__ import annotations

from uuid import UUID

from ...ledger.stores.clock import shifted
from ...models import Batch, BatchRecord, BatchState
from .batch_bench import KEPT, BatchBench, a_record


class PrunedBatches(BatchBench):
    """What the sweeper deletes of batches, and what it leaves."""

    def test_a_batch_past_its_time_is_pruned_with_its_chunks_and_records_in_bites(self) -> None:
        batch, calls = self.sealed(3)
        for index in range(2):
            self.store().keep_record(batch, a_record(index))
        self.ended(*calls)
        self.settle(batch)
        running, _ = self.sealed()
        self.store().keep_record(running, a_record())
        with shifted(KEPT - 100):
            assert self.store().prune_batches(bite=100) == 0
        with shifted(KEPT + 1):
            assert [self.store().prune_batches(bite=2) for _ in range(4)] == [2, 2, 2, 0]
        assert not Batch.objects.using(self.alias).filter(id=batch).exists()
        assert not self.chunk_rows(batch)
        assert [record.batch_id for record in BatchRecord.objects.using(self.alias).all()] == [running]
        assert len(self.chunk_rows(running)) == 1

    def test_a_batch_goes_after_its_last_chunk(self) -> None:
        batch, calls = self.sealed(2)
        self.ended(*calls)
        self.settle(batch)
        with shifted(KEPT + 1):
            assert self.store().prune_batches(bite=1) == 1
            assert len(self.chunk_rows(batch)) == 1
            assert self.entry_of(batch).is_past is True
            assert self.store().prune_batches(bite=9) == 2

    def test_what_is_submitted_anew_under_the_same_id_is_not_pruned(self) -> None:
        batch = self.ended_batch()
        with shifted(KEPT + 1):
            assert self.store().prune_batch(batch, bite=9) == 2
            assert self.store().add_batch(self.new_batch(batch))
            self.store().add_chunks(batch, [self.chunk()])
            assert self.store().prune_batch(batch, bite=9) == 0
        assert self.state_of(batch) is BatchState.SUBMITTING
        assert len(self.chunk_rows(batch)) == 1

    def test_a_batch_that_somebody_redrives_is_not_pruned(self) -> None:
        batch = self.ended_batch()
        with shifted(KEPT + 1), self.open_transaction():
            assert self.store().lock_batch(batch)
            assert self.without_waiting(lambda side: side.prune_batches(bite=9)) == 0
            assert self.store().reopen_batch(batch, revision=1)
        assert self.state_of(batch) is BatchState.RUNNING
        assert len(self.chunk_rows(batch)) == 1

    def test_pruning_waits_for_no_chunk_of_another_batch(self) -> None:
        batch = self.ended_batch()
        _, calls = self.sealed()
        claim = self.holding_chunk(calls[0])
        with shifted(KEPT + 1), self.open_transaction():
            assert self.store().keep_outcomes(claim, outcomes="o..")
            assert self.without_waiting(lambda side: side.prune_batches(bite=9)) == 2
        assert not self.chunk_rows(batch)

    def ended_batch(self) -> UUID:
        """A batch of one chunk that has ended, to be pruned after ``KEPT``."""
        batch, calls = self.sealed()
        self.ended(*calls)
        self.settle(batch)
        return batch
