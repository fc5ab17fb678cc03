"""Promises about chunks: they follow the keys of their calls, and only an owner writes outcomes."""
# ruff: noqa: S101, PLR2004  promises are asserted, in plain numbers

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from django.db import DatabaseError

from ...ledger.batch_values import Settled
from ...ledger.values import Call
from ...models import BatchChunk, BatchState, ChunkState
from ...states import State
from .batch_bench import CALLBACK, BatchBench
from .bench import RETENTION
from .meeting import RIVALS

#: Where a chunk is whose key is in this state.
FOLLOWS = {
    State.PENDING: ChunkState.OPEN,
    State.RUNNING: ChunkState.OPEN,
    State.RETRY: ChunkState.OPEN,
    State.REVIEW: ChunkState.NEEDS_ATTENTION,
    State.FAILED: ChunkState.NEEDS_ATTENTION,
    State.CANCELLED: ChunkState.CANCELLED,
    State.SUCCEEDED: ChunkState.ENDED,
}


class _Undone(Exception):
    """Rolls back."""


class FollowingChunks(BatchBench):
    """A chunk is where its key is."""

    def test_a_chunk_is_where_its_key_is(self) -> None:
        batch, calls = self.sealed(len(FOLLOWS))
        for call, state in zip(calls, FOLLOWS, strict=True):
            self.in_columns(call, state=state)
        assert self.follow(*calls) == {batch}
        assert self.chunk_states(batch) == [*FOLLOWS.values()]
        assert self.follow(*calls) == set()

    def test_only_the_batches_of_chunks_that_moved_are_named(self) -> None:
        (one, (first,)), (two, (second,)), (_, (third,)) = (self.sealed() for _ in range(3))
        for call in (first, second):
            self.completed(self.started(call))
        assert self.follow(first, third) == {one}
        assert self.follow(first, second, self.call()) == {two}
        assert self.store().follow_chunks([]) == set()

    def test_a_chunk_that_has_ended_stays_so(self) -> None:
        batch, calls = self.sealed(2)
        self.ended(*calls)
        for state in (State.FAILED, State.RUNNING):
            self.in_columns(calls[0], state=state)
            assert self.follow(*calls) == set()
        self._forget(calls[1])
        assert self.follow(*calls) == set()
        assert self.chunk_states(batch) == [ChunkState.ENDED] * 2

    def test_what_has_no_outcome_is_done_at_the_end_and_nothing_else_changes(self) -> None:
        batch, calls = self.sealed(2)
        claim = self.holding_chunk(calls[0])
        assert self.store().keep_outcomes(claim, outcomes="f.x") is True
        self.completed(claim)
        self.failed(self.started(calls[1]))
        self.follow(*calls)
        assert self.outcomes(batch) == ["fox", "..."]

    def test_a_key_that_is_gone_has_ended_where_all_records_have_outcomes(self) -> None:
        batch, calls = self.sealed(2)
        claim = self.holding_chunk(calls[0])
        assert self.store().keep_outcomes(claim, outcomes="off") is True
        for call in calls:
            self._forget(call)
        assert self.follow(*calls) == {batch}
        assert self.chunk_states(batch) == [ChunkState.ENDED, ChunkState.DISCARDED]
        assert self.follow(*calls) == set()

    def test_a_cancelled_chunk_stays_so_when_its_key_is_gone(self) -> None:
        batch, calls = self.sealed()
        self.store().cancel_waiting(["chunk-0"], window=RETENTION)
        self.follow(*calls)
        self._forget(calls[0])
        assert self.follow(*calls) == set()
        assert self.chunk_states(batch) == [ChunkState.CANCELLED]

    def test_a_discarded_chunk_that_is_redriven_opens_its_batch_again(self) -> None:
        batch, calls = self.sealed()
        claim = self.failed_chunk(calls[0])
        assert self.store().discard(claim.digest, token=claim.token, retention=RETENTION)
        self.follow(*calls)
        assert self.settle(batch) == Settled(BatchState.FINISHED, (CALLBACK,))
        token = self.seen(calls[0]).token
        assert self.store().redrive(claim.digest, token=token, message='{"v": 1}')
        assert self.follow(*calls) == {batch}
        row = self.batch_row(batch)
        assert (row.state, row.revision, row.finished_at) == (BatchState.RUNNING, 2, None)
        assert self.chunk_states(batch) == [ChunkState.OPEN]
        assert self.settle(batch) == Settled(BatchState.RUNNING)

    def test_a_key_that_moves_on_meanwhile_is_not_followed_to_where_it_was(self) -> None:
        batch, calls = self.sealed()
        claim = self.failed(self.started(calls[0]))
        assert self.store().discard(claim.digest, token=claim.token, retention=RETENTION)
        token = self.seen(calls[0]).token

        def redrive() -> None:
            with self.second_store() as second, suppress(DatabaseError):  # a store may have locked the key
                second.redrive(claim.digest, token=token, message='{"v": 1}')

        with self.before_write(BatchChunk, redrive):
            self.follow(*calls)
        is_redriven = self.seen(calls[0]).state is State.PENDING
        assert self.chunk_states(batch) == [ChunkState.OPEN if is_redriven else ChunkState.DISCARDED]

    def test_nobody_redrives_a_key_between_a_chunks_move_and_its_commit(self) -> None:
        _, calls = self.sealed()
        claim = self.failed(self.started(calls[0]))
        with self.open_transaction():
            self.follow(*calls)
            is_redriven = False
            with self.second_store() as second, suppress(DatabaseError):
                is_redriven = second.redrive(claim.digest, token=claim.token, message='{"v": 1}')
            assert is_redriven is False

    def test_two_follow_at_once_and_the_chunk_moves_once(self) -> None:
        batch, calls = self.sealed()
        self.completed(self.started(calls[0]))
        self.all_at_once(lambda store: store.follow_chunks([calls[0].identity.digest]))
        assert self.chunk_states(batch) == [ChunkState.ENDED]

    def test_chunks_that_lag_behind_their_keys_are_found_a_page_at_a_time(self) -> None:
        batches = {}
        for chunks in (3, 2):
            batch, calls = self.sealed(chunks)
            batches[batch] = calls
        lagging = [calls[0] for calls in batches.values()]
        for call in lagging:
            self.completed(self.started(call))
        (failing,) = self.sealed()[1]
        self.failed_chunk(failing)
        self.store().redrive(failing.identity.digest, token=self.seen(failing).token, message='{"v": 1}')
        for bite in (1, 2, 100):
            assert self._lagging(bite) == {call.identity.digest for call in (*lagging, failing)}
        self.follow(*lagging, failing)
        assert self._lagging(2) == set()

    def test_the_end_of_a_chunk_whose_key_is_completed_tells_whether_the_batch_needs_settling(self) -> None:
        batch, calls = self.sealed(2)
        first, last = (self.completed(self.started(call)) for call in calls)
        assert self.store().end_chunk(first, batch) is False
        assert self.store().end_chunk(last, batch) is True
        assert self.chunk_states(batch) == [ChunkState.ENDED, ChunkState.ENDED]
        assert self.store().end_chunk(last, batch) is None
        assert self.settle(batch) == Settled(BatchState.FINISHED, (CALLBACK,))

    def test_a_chunk_whose_key_has_moved_on_is_not_ended(self) -> None:
        batch, calls = self.sealed()
        claim = self.completed(self.started(calls[0]))
        later = replace(claim, grant=replace(claim.grant, token=claim.token + 1))
        assert self.store().end_chunk(later, batch) is None
        assert self.chunk_states(batch) == [ChunkState.OPEN]

    def test_the_end_of_a_chunk_is_rolled_back_with_the_transaction_that_it_is_in(self) -> None:
        batch, calls = self.sealed()
        claim = self.completed(self.started(calls[0]))
        with suppress(_Undone), self.store().together():
            assert self.store().end_chunk(claim, batch) is True
            raise _Undone
        assert self.chunk_states(batch) == [ChunkState.OPEN]

    def test_of_chunks_that_end_at_a_time_one_tells_that_the_batch_needs_settling(self) -> None:
        batch, calls = self.sealed(RIVALS)
        claims = iter([self.completed(self.started(call)) for call in calls])
        assert True in self.all_at_once(lambda store: store.end_chunk(next(claims), batch))
        assert self.chunk_states(batch) == [ChunkState.ENDED] * RIVALS

    def test_a_page_of_chunks_has_as_many_as_were_asked_for(self) -> None:
        _, calls = self.sealed(3)
        for call in calls:
            self.completed(self.started(call))
        page = self.store().lagging_chunks(after=None, bite=2)
        assert len(page.digests) == 2
        assert page.after is not None
        assert len(self.store().lagging_chunks(after=page.after, bite=2).digests) == 1

    def _lagging(self, bite: int) -> set[UUID]:
        """All pages."""
        found: list[UUID] = []
        page = self.store().lagging_chunks(after=None, bite=bite)
        found += page.digests
        while page.after is not None:
            page = self.store().lagging_chunks(after=page.after, bite=bite)
            found += page.digests
        assert len(found) == len({*found}), "a chunk is on two pages"
        return {*found}

    def _forget(self, call: Call) -> None:
        """Delete the key's row, as a prune does."""
        self.in_columns(call, state=State.FAILED, due_at=self.now(call) - timedelta(seconds=1))
        assert self.store().prune(State.FAILED, bite=9) == 1
