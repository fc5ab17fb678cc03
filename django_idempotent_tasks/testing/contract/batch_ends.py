"""Promises about the end of batches: each is finished once, when all its chunks have ended."""
# ruff: noqa: S101, PLR2004  promises are asserted, in plain numbers

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from ...ledger.batch_values import Settled
from ...ledger.stores import LedgerStore
from ...ledger.values import Call
from ...models import Batch, BatchState, ChunkState
from ...states import Category, Reason
from .batch_bench import CALLBACK, KEPT, ON_ATTENTION, BatchBench
from .bench import RETENTION, a_failure


class FinishedBatches(BatchBench):
    """A batch ends with its last chunk."""

    def test_a_batch_ends_with_its_last_chunk_and_brings_its_callback(self) -> None:
        batch, calls = self.sealed(2)
        self.ended(calls[0])
        assert self.store().needs_settling(batch) is False
        assert self.settle(batch) == Settled(BatchState.RUNNING)
        self.ended(calls[1])
        assert self.store().needs_settling(batch) is True
        assert self.settle(batch) == Settled(BatchState.FINISHED, (CALLBACK,))
        assert self.store().needs_settling(batch) is False
        assert self.settle(batch) == Settled(BatchState.FINISHED)
        row = self.batch_row(batch)
        assert row.state == BatchState.FINISHED
        assert row.finished_at is not None
        assert row.due_at is not None
        assert round((row.due_at - row.finished_at).total_seconds()) == KEPT
        assert self.chunk_states(batch) == [ChunkState.ENDED] * 2

    def test_a_batch_is_settled_by_its_own_chunks_only(self) -> None:
        batch, calls = self.sealed()
        self.sealed()
        failing, others = self.sealed()
        self.failed_chunk(others[0])
        assert self.settle(batch) == Settled(BatchState.RUNNING)
        self.ended(*calls)
        assert self.settle(batch) == Settled(BatchState.FINISHED, (CALLBACK,))
        assert self.state_of(failing) is BatchState.RUNNING

    def test_of_simultaneous_settlements_one_brings_the_callback(self) -> None:
        batch, calls = self.sealed()
        self.ended(*calls)

        def settle(store: LedgerStore) -> Settled:
            with store.together():
                return store.settle_batch(batch, kept=KEPT)

        found = self.all_at_once(settle)
        assert [settled.calls for settled in found if settled.calls] == [(CALLBACK,)]
        assert self.state_of(batch) is BatchState.FINISHED

    def test_what_is_rolled_back_has_not_finished(self) -> None:
        batch, calls = self.sealed()
        self.ended(*calls)
        with suppress(ZeroDivisionError), self.store().together():
            assert self.store().settle_batch(batch, kept=KEPT).calls == (CALLBACK,)
            raise ZeroDivisionError
        assert self.settle(batch) == Settled(BatchState.FINISHED, (CALLBACK,))

    def test_a_batch_that_is_not_sealed_does_not_end(self) -> None:
        batch, call = self.batch(), self.reserved()
        self.store().add_chunks(batch, [self.chunk(of=call)])
        self.ended(call)
        assert self.settle(batch) == Settled(BatchState.SUBMITTING)
        assert self.store().seal_batch(batch, records=3, chunks=1) is True
        assert self.settle(batch) == Settled(BatchState.FINISHED, (CALLBACK,))

    def test_a_batch_of_nothing_ends_at_once(self) -> None:
        batch, _ = self.sealed(0)
        assert self.settle(batch) == Settled(BatchState.FINISHED, (CALLBACK,))

    def test_a_batch_without_a_callback_brings_none(self) -> None:
        batch, calls = self.sealed(2, callback=None, on_attention=None)
        self.failed_chunk(calls[0])
        assert self.settle(batch) == Settled(BatchState.NEEDS_ATTENTION)
        assert self.batch_row(batch).attention_at is not None
        self._discard(calls[0])
        self.ended(calls[1])
        assert self.settle(batch) == Settled(BatchState.FINISHED)

    def test_a_batch_that_is_gone_is_not_settled(self) -> None:
        gone = UUID(int=7)
        assert self.store().needs_settling(gone) is False
        assert self.settle(gone) == Settled(None)

    def test_a_dead_letter_holds_its_batch_and_is_announced_once(self) -> None:
        batch, calls = self.sealed(2)
        claim = self.failed_chunk(calls[0])
        assert self.store().needs_settling(batch) is True
        assert self.settle(batch) == Settled(BatchState.NEEDS_ATTENTION, (ON_ATTENTION,))
        self.ended(calls[1])
        assert self.store().needs_settling(batch) is False
        assert self.settle(batch) == Settled(BatchState.NEEDS_ATTENTION)
        assert self.store().redrive(claim.digest, token=claim.token, message='{"v": 1}')
        self.follow(calls[0])
        assert self.settle(batch) == Settled(BatchState.RUNNING)
        self.failed_chunk(calls[0])
        assert self.settle(batch) == Settled(BatchState.NEEDS_ATTENTION)
        assert self.batch_row(batch).finished_at is None

    def test_a_dead_letter_is_announced_while_the_batch_is_submitted(self) -> None:
        batch, call = self.batch(), self.reserved()
        self.store().add_chunks(batch, [self.chunk(of=call)])
        self.failed_chunk(call)
        assert self.store().unsettled_batches(bite=9) == [batch]
        assert self.settle(batch) == Settled(BatchState.SUBMITTING, (ON_ATTENTION,))
        assert self.store().unsettled_batches(bite=9) == []
        assert self.store().seal_batch(batch, records=3, chunks=1) is True
        assert self.settle(batch) == Settled(BatchState.NEEDS_ATTENTION)

    def test_a_discarded_chunk_counts_as_ended(self) -> None:
        batch, calls = self.sealed()
        self.failed_chunk(calls[0])
        self.settle(batch)
        self._discard(calls[0])
        assert self.chunk_states(batch) == [ChunkState.DISCARDED]
        assert self.settle(batch) == Settled(BatchState.FINISHED, (CALLBACK,))

    def test_a_chunk_whose_call_ended_as_expected_counts_as_ended_and_opens_again_by_a_redrive(self) -> None:
        batch, calls = self.sealed()
        claim = self.started(calls[0])
        assert self.fail(claim, reason=Reason.EXPECTED, failure=a_failure(category=Category.EXPECTED))
        self.follow(calls[0])
        assert self.chunk_states(batch) == [ChunkState.DISCARDED]
        assert self.settle(batch) == Settled(BatchState.FINISHED, (CALLBACK,))
        assert self.store().redrive(claim.digest, token=claim.token, message='{"v": 1}')
        self.follow(calls[0])
        assert self.chunk_states(batch) == [ChunkState.OPEN]

    def test_a_reopened_batch_finishes_again_without_another_callback(self) -> None:
        batch, calls = self.sealed()
        self.ended(*calls)
        self.settle(batch)
        assert self.store().reopen_batch(batch, revision=2) is False
        assert self.store().reopen_batch(batch, revision=1) is True
        row = self.batch_row(batch)
        assert (row.state, row.revision, row.finished_at, row.due_at) == (BatchState.RUNNING, 2, None, None)
        assert self.settle(batch) == Settled(BatchState.FINISHED)
        assert self.batch_row(batch).due_at is not None

    def test_a_batch_that_is_reopened_while_it_is_submitted_is_submitted_on(self) -> None:
        batch = self.batch()
        assert self.store().reopen_batch(batch, revision=1) is True
        assert self.state_of(batch) is BatchState.SUBMITTING
        assert self.entry_of(batch).revision == 2

    def test_a_settlement_does_not_finish_what_was_reopened_meanwhile(self) -> None:
        batch, calls = self.sealed()
        self.ended(*calls)
        further = self.reserved()

        def reopen() -> None:
            with self.second_store() as second, second.together():
                assert second.reopen_batch(batch, revision=1) is True
                second.add_chunks(batch, [self.chunk(1, of=further)])

        with self.store().together(), self.before_write(Batch, reopen):
            assert self.store().settle_batch(batch, kept=KEPT) == Settled(BatchState.RUNNING)
        assert self.state_of(batch) is BatchState.RUNNING
        self.ended(further)
        assert self.settle(batch) == Settled(BatchState.FINISHED, (CALLBACK,))

    def test_a_settlement_that_another_has_made_brings_no_callback(self) -> None:
        batch, calls = self.sealed()
        self.ended(*calls)

        def settle() -> None:
            with self.second_store() as second, second.together():
                assert second.settle_batch(batch, kept=KEPT).calls == (CALLBACK,)

        with self.store().together(), self.before_write(Batch, settle):
            assert self.store().settle_batch(batch, kept=KEPT) == Settled(BatchState.FINISHED)

    def test_a_settlement_looks_again_where_another_was_faster(self) -> None:
        batch, calls = self.sealed(2)
        self.ended(calls[1])
        claim = self.failed_chunk(calls[0])

        def settle_and_end() -> None:
            with self.second_store() as second, second.together():
                assert second.settle_batch(batch, kept=KEPT).calls == (ON_ATTENTION,)
            with self.second_store() as second:
                assert second.discard(claim.digest, token=claim.token, retention=RETENTION)
                second.follow_chunks([claim.digest])

        with self.store().together(), self.before_write(Batch, settle_and_end):
            assert self.store().settle_batch(batch, kept=KEPT) == Settled(BatchState.FINISHED, (CALLBACK,))

    def _discard(self, call: Call) -> None:
        token = self.seen(call).token
        assert self.store().discard(call.identity.digest, token=token, retention=RETENTION)
        self.follow(call)


class CancelledBatches(BatchBench):
    """A batch that nobody waits for any more, and what the sweeper finds."""

    def test_a_cancelled_batch_stays_so_and_goes_after_its_last_open_chunk(self) -> None:
        batch, calls = self.sealed(2)
        self.ended(calls[0])
        assert self.store().cancel_batch(batch, by="ann", reason="wrong file") is True
        assert self.store().cancel_batch(batch, by="bob", reason="again") is False
        row = self.batch_row(batch)
        assert (row.cancelled_by, row.reason, row.revision) == ("ann", "wrong file", 2)
        assert row.finished_at is not None
        assert self.settle(batch) == Settled(BatchState.CANCELLED)
        assert self.batch_row(batch).due_at is None
        assert self.store().cancelled_batches(bite=9) == [batch]
        assert self.store().cancel_waiting(["chunk-1"], window=RETENTION) == 1
        self.follow(calls[1])
        assert self.chunk_states(batch) == [ChunkState.ENDED, ChunkState.CANCELLED]
        assert self.store().cancelled_batches(bite=9) == []
        assert self.store().unsettled_batches(bite=9) == [batch]
        assert self.settle(batch) == Settled(BatchState.CANCELLED)
        assert self.batch_row(batch).due_at is not None
        assert self.store().unsettled_batches(bite=9) == []

    def test_what_has_ended_is_not_cancelled_and_what_is_cancelled_does_not_run_again(self) -> None:
        batch, calls = self.sealed()
        self.ended(*calls)
        self.settle(batch)
        assert self.store().cancel_batch(batch, by="ann", reason="late") is False
        other = self.batch()
        assert self.store().cancel_batch(other, by="ann", reason="early") is True
        assert self.store().reopen_batch(other, revision=2) is False
        assert self.state_of(other) is BatchState.CANCELLED

    def test_a_failure_in_a_cancelled_batch_is_announced_to_nobody(self) -> None:
        batch, calls = self.sealed()
        assert self.store().cancel_batch(batch, by="ann", reason="wrong file") is True
        self.failed_chunk(calls[0])
        assert self.settle(batch) == Settled(BatchState.CANCELLED)

    def test_batches_that_are_not_where_their_chunks_are_are_found(self) -> None:
        running, _ = self.sealed()
        ended, calls = self.sealed()
        self.ended(*calls)
        failed, calls = self.sealed(2)
        self.failed_chunk(calls[0])
        assert {*self.store().unsettled_batches(bite=9)} == {ended, failed}
        self.begun_before(failed, ended)
        assert self.store().unsettled_batches(bite=1) == [failed]
        self.begun_before(ended, failed)
        assert self.store().unsettled_batches(bite=1) == [ended]
        for batch in (ended, failed, running):
            self.settle(batch)
        assert self.store().unsettled_batches(bite=9) == []
        self.store().redrive(calls[0].identity.digest, token=self.seen(calls[0]).token, message='{"v": 1}')
        self.follow(calls[0])
        assert self.store().unsettled_batches(bite=9) == [failed]
