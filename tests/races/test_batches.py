"""The end of a batch meets the ends of its chunks, a redrive, and another end of itself."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from django_idempotent_tasks.ledger import batches
from django_idempotent_tasks.ledger.batch_values import Settled
from django_idempotent_tasks.ledger.values import Call, Claim
from django_idempotent_tasks.models import BatchState, ChunkState
from django_idempotent_tasks.testing.contract.batch_bench import KEPT
from tests.races.batches import (
    ROUNDS,
    BatchStage,
    end_and_follow,
    end_and_meet,
    follow_and_meet,
)
from tests.races.staging import BOTH_ENDS, end, waiting
from tests.support.ledger.session import Session, Work
from tests.support.waiting import PATIENCE

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]


def settle(batch: UUID) -> Work[Settled]:
    return lambda store: store.settle_batch(batch, kept=KEPT)


def reopen(batch: UUID) -> Work[bool]:
    return lambda store: store.reopen_batch(batch, revision=1)


def follow(call: Call) -> Work[set[UUID]]:
    return lambda store: store.follow_chunks([call.identity.digest])


def redrive(claim: Claim, token: int) -> Work[bool]:
    return lambda store: store.redrive(claim.digest, token=token, message='{"v": 1}')


class TestChunksThatEndAtOnce(BatchStage):
    @pytest.mark.parametrize("work", [end_and_follow, end_and_meet, follow_and_meet])
    def test_exactly_one_of_twenty_reserves_the_callback(self, work: Callable[..., list[Call]]) -> None:
        for _ in range(ROUNDS):
            self.all_end(work)


class TestSettlementAndRedrive(BatchStage):
    @BOTH_ENDS
    def test_a_batch_that_is_being_reopened_is_not_finished(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        batch, calls, _ = self.with_callback(1)
        self.ended(*calls)
        further = self.reserved()
        one.begin()
        assert one.do(reopen(batch)) is True
        one.do(lambda store: store.add_chunks(batch, [self.chunk(1, of=further)]))
        two.begin()
        settled = waiting(two, settle(batch), for_=one)
        end(one, commits=commits)
        state = BatchState.RUNNING if commits else BatchState.FINISHED
        assert settled.result(PATIENCE).state is state
        two.commit()
        assert self.state_of(batch) is state
        assert len(self.chunk_rows(batch)) == (2 if commits else 1)

    @BOTH_ENDS
    def test_a_batch_that_is_being_finished_is_reopened_after_it(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        batch, calls, _ = self.with_callback(1)
        self.ended(*calls)
        one.begin()
        assert len(one.do(settle(batch)).calls) == 1
        reopened = waiting(two, reopen(batch), for_=one)
        end(one, commits=commits)
        assert reopened.result(PATIENCE) is True
        assert self.state_of(batch) is BatchState.RUNNING
        assert len(self.settle(batch).calls) == (0 if commits else 1)

    @BOTH_ENDS
    def test_a_chunk_follows_a_redrive_that_it_has_waited_for(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        batch, calls, _ = self.with_callback(1)
        claim = self.failed(self.started(calls[0]))
        token = self.seen(calls[0]).token
        one.begin()
        assert one.do(redrive(claim, token)) is True
        followed = waiting(two, follow(calls[0]), for_=one)
        end(one, commits=commits)
        assert followed.result(PATIENCE) == {batch}
        assert self.chunk_states(batch) == [ChunkState.OPEN if commits else ChunkState.NEEDS_ATTENTION]

    def test_a_redrive_waits_for_a_chunk_that_follows_and_the_chunk_is_followed_again(
        self, one: Session, two: Session
    ) -> None:
        batch, calls, _ = self.with_callback(1)
        claim = self.failed_chunk(calls[0])
        assert self.store().discard(claim.digest, token=claim.token, retention=KEPT)
        token = self.seen(calls[0]).token
        one.begin()
        assert one.do(follow(calls[0])) == {batch}
        redriven = waiting(two, redrive(claim, token), for_=one)
        one.commit()
        assert redriven.result(PATIENCE) is True
        batches.follow(self.store(), [claim.digest])
        assert self.chunk_states(batch) == [ChunkState.OPEN]
        assert self.state_of(batch) is BatchState.RUNNING

    @BOTH_ENDS
    def test_who_has_waited_for_another_redrive_gets_the_place_behind_its_chunk(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        batch, _, _ = self.with_callback(2)
        one.begin()
        one.do(lambda store: store.lock_batch(batch))
        one.do(lambda store: store.add_chunks(batch, [self.chunk(2)]))
        two.begin()
        locked = waiting(two, lambda store: store.lock_batch(batch), for_=one)
        end(one, commits=commits)
        assert locked.result(PATIENCE) is not None
        assert two.do(lambda store: store.next_place(batch)) == (3 if commits else 2)
        two.commit()

    def test_a_callback_whose_key_has_a_call_is_not_sent_and_the_log_says_so(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        batch, calls, callback = self.with_callback(1)
        other = self.reserved(self.call("other", of=callback))
        self.completed(self.started(calls[0]))
        assert batches.follow(self.store(), [calls[0].identity.digest]) == []
        assert self.state_of(batch) is BatchState.FINISHED
        assert f"the key is PENDING as call {other.task_id}" in caplog.text

    def test_a_callback_whose_key_somebody_holds_is_left_to_the_sweeper(self, one: Session) -> None:
        batch, calls, callback = self.with_callback(1)
        self.completed(self.started(calls[0]))
        one.begin()
        one.do(lambda store: store.reserve_new(callback, wait=9, sends=0))
        assert batches.follow(self.store(), [calls[0].identity.digest]) == []
        assert self.state_of(batch) is BatchState.RUNNING
        assert self.store().unsettled_batches(bite=9) == [batch]
        one.rollback()
        assert batches.settle(self.store(), batch) == [callback]
        assert self.state_of(batch) is BatchState.FINISHED
