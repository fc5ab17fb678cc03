"""An owner ends its claim while somebody else takes it, cancels it, renews it or frees it."""

from __future__ import annotations

import threading
import time

import pytest

from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Claim
from django_idempotent_tasks.running.heartbeat import Heart, _Held
from django_idempotent_tasks.states import Reason, State
from tests.races.staging import (
    BOTH_ENDS,
    LEASE,
    RETENTION,
    WINDOW,
    Stage,
    claim_anew,
    end,
    take_over,
    waiting,
)
from tests.support.ledger.session import Session, Work
from tests.support.waiting import PATIENCE

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]


def complete(held: Claim, *, retention: int = RETENTION) -> Work[bool]:
    return lambda store: store.complete(
        held, result='"done"', reason=Reason.DONE, retention=retention, window=WINDOW
    )


def cancel(held: Claim) -> Work[bool]:
    return lambda store: store.cancel(held.digest, window=WINDOW)


def renew(held: Claim) -> Work[set[object]]:
    return lambda store: set(store.renew([held]))


class TestTakeoverAndCompletion(Stage):
    @BOTH_ENDS
    def test_a_completion_waits_for_a_takeover_and_loses_if_it_stands(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        held = self.claimed()
        with shifted(LEASE + 1):
            seen = self.seen(held.call)
            one.begin()
            assert one.do(take_over(held.call, seen)) is not None
            completed = waiting(two, complete(held), for_=one)
            end(one, commits=commits)
            assert completed.result(PATIENCE) is not commits
        assert self.seen(held.call).state is (State.RUNNING if commits else State.SUCCEEDED)

    @BOTH_ENDS
    def test_a_takeover_waits_for_a_completion_and_loses_if_it_stands(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        held = self.claimed()
        with shifted(LEASE + 1):
            seen = self.seen(held.call)
            one.begin()
            assert one.do(complete(held)) is True
            taken = waiting(two, take_over(held.call, seen), for_=one)
            end(one, commits=commits)
            assert (taken.result(PATIENCE) is None) is commits
        assert self.seen(held.call).state is (State.SUCCEEDED if commits else State.RUNNING)

    def test_the_loser_of_a_takeover_can_never_complete_afterwards(self, one: Session) -> None:
        held = self.claimed()
        with shifted(LEASE + 1):
            taker = self.taken_over(held.call)
            assert one.do(complete(held)) is False
            assert self.complete(taker) is True
            assert one.do(complete(held)) is False


class TestClaimsOfAFinishedKey(Stage):
    @BOTH_ENDS
    def test_the_second_waits_for_the_first_and_loses_if_it_stands(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        finished = self.completed(retention=0)
        first, second = self.call("B", of=finished.call), self.call("C", of=finished.call)
        seen = self.seen(first)
        one.begin()
        assert one.do(claim_anew(first, seen)) is not None
        late = waiting(two, claim_anew(second, seen), for_=one)
        end(one, commits=commits)
        assert (late.result(PATIENCE) is None) is commits
        assert self.seen(first).task_id == ("B" if commits else "C")
        assert self.seen(finished.call).was_answered is True
        assert self.seen(first).was_answered is False

    def test_a_change_that_is_no_transition_does_not_refuse_the_claim(
        self, one: Session, two: Session
    ) -> None:
        finished = self.completed(retention=0)
        self.store().record_duplicate(finished.call, place="worker", reason="already_completed")
        call = self.call("B", of=finished.call)
        seen = self.seen(call)
        one.begin()
        assert one.do(lambda store: store.sum_duplicates(bite=9)) == 1
        anew = waiting(two, claim_anew(call, seen), for_=one)
        one.commit()
        assert anew.result(PATIENCE) is not None
        assert self.row(call).duplicates == 0


class TestCancelAndCompletion(Stage):
    @BOTH_ENDS
    def test_a_completion_waits_for_a_cancel_and_loses_if_it_stands(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        held = self.claimed()
        one.begin()
        assert one.do(cancel(held)) is True
        completed = waiting(two, complete(held), for_=one)
        end(one, commits=commits)
        assert completed.result(PATIENCE) is not commits
        assert self.seen(held.call).state is (State.CANCELLED if commits else State.SUCCEEDED)

    @BOTH_ENDS
    def test_a_cancel_does_not_wait_for_a_completion(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        held = self.claimed()
        one.begin()
        one.do(complete(held))
        assert two.do(cancel(held)) is False
        end(one, commits=commits)
        assert two.do(cancel(held)) is not commits


class TestHeartbeats(Stage):
    @BOTH_ENDS
    def test_a_heartbeat_passes_over_a_row_that_a_completion_holds(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        held = self.claimed()
        one.begin()
        one.do(complete(held))
        assert two.do(renew(held)) == set()
        entry = two.do(lambda store: store.read(held.digest, task_id="A"))
        assert entry is not None
        assert (entry.state, entry.token, entry.is_open) == (State.RUNNING, held.token, False), "not lost"
        end(one, commits=commits)
        assert two.do(renew(held)) == (set() if commits else {held.digest})

    @BOTH_ENDS
    def test_an_owner_is_never_told_that_its_own_completion_lost_the_lease(
        self, one: Session, *, commits: bool
    ) -> None:
        lost, now = threading.Event(), time.monotonic()
        held = _Held(self.claimed(), lost.set, lambda _: None, renewed=now, tried=now)
        one.begin()
        one.do(complete(held.claim))
        Heart()._beat([held])
        assert not lost.is_set(), "the row is locked"
        end(one, commits=commits)
        Heart()._beat([held])
        assert not lost.is_set()

    def test_an_owner_is_told_that_another_has_the_key(self, one: Session) -> None:
        lost, now = threading.Event(), time.monotonic()
        held = _Held(self.claimed(), lost.set, lambda _: None, renewed=now, tried=now)
        with shifted(LEASE + 1):
            one.do(take_over(held.claim.call, self.seen(held.claim.call)))
        Heart()._beat([held])
        assert lost.is_set()

    def test_a_completion_waits_for_a_heartbeat_and_is_accepted(self, one: Session, two: Session) -> None:
        held = self.claimed()
        one.begin()
        assert one.do(renew(held)) == {held.digest}
        completed = waiting(two, complete(held), for_=one)
        one.commit()
        assert completed.result(PATIENCE) is True

    @BOTH_ENDS
    def test_a_takeover_waits_for_a_heartbeat_in_time_and_loses_if_it_stands(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        held = self.claimed()
        with shifted(LEASE + 1):
            seen = self.seen(held.call)
        with shifted(LEASE - 10):
            one.begin()
            assert one.do(renew(held)) == {held.digest}
        with shifted(LEASE + 1):
            taken = waiting(two, take_over(held.call, seen), for_=one)
            end(one, commits=commits)
            assert (taken.result(PATIENCE) is None) is commits

    @BOTH_ENDS
    def test_a_late_heartbeat_renews_the_lease_only_where_the_takeover_does_not_stand(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        held = self.claimed()
        with shifted(LEASE + 1):
            seen = self.seen(held.call)
            one.begin()
            one.do(take_over(held.call, seen))
            assert two.do(renew(held)) == set()
            end(one, commits=commits)
            assert two.do(renew(held)) == (set() if commits else {held.digest})
            assert (self.seen(held.call).token == held.token) is not commits
