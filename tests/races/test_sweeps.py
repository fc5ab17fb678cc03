"""The sweeper meets other sweepers, owners, heartbeats and claims."""

from __future__ import annotations

import pytest
from django.db import OperationalError

from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Claim, Due
from django_idempotent_tasks.states import State
from tests.races.staging import BOTH_ENDS, LEASE, REPUBLISH, Stage, end, take_over, waiting
from tests.races.test_settling import complete, renew
from tests.support.ledger.session import Session, Work
from tests.support.waiting import PATIENCE

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]


def sweep(bite: int = 9) -> Work[list[Due]]:
    return lambda store: store.sweep(bite=bite, republish=REPUBLISH)


class TestTwoSweeps(Stage):
    @BOTH_ENDS
    def test_share_no_row_and_do_not_wait_for_each_other(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        claims = {self.claimed().digest for _ in range(6)}
        with shifted(LEASE + 1):
            one.begin()
            first = {row.digest for row in one.do(sweep(3))}
            second = {row.digest for row in two.do(sweep(4))}
            assert (len(first), len(second)) == (3, 3)
            assert first | second == claims
            end(one, commits=commits)
            assert {row.digest for row in two.do(sweep())} == (set() if commits else first)

    def test_of_retries_and_reservations_share_no_row_either(self, one: Session, two: Session) -> None:
        claims = {self._due(state).digest for state in (State.PENDING, State.RETRY) for _ in range(4)}
        one.begin()
        first = {row.digest for row in one.do(sweep(2))}
        second = {row.digest for row in two.do(sweep(9))}
        one.commit()
        assert first | second == claims
        assert not first & second

    def test_in_serializable_transactions_send_no_row_twice(self, one: Session, two: Session) -> None:
        """SKIP LOCKED does not keep SERIALIZABLE from a conflict; then one of the two has swept in vain."""
        claims = {self.claimed().digest for _ in range(4)}
        with shifted(LEASE + 1):
            one.begin("SERIALIZABLE")
            two.begin("SERIALIZABLE")
            committed = [{row.digest for row in one.do(sweep(2))}]
            second = {row.digest for row in two.do(sweep(2))}
            one.commit()
            try:
                two.commit()
            except OperationalError:
                two.rollback()
            else:
                committed.append(second)
            committed.append({row.digest for row in self.store().sweep(bite=9, republish=REPUBLISH)})
        assert sum(map(len, committed)) == len(claims)
        assert set().union(*committed) == claims

    def _due(self, state: State) -> Claim:
        claim = self.in_state(state)
        self.in_columns(claim, due_at=self.now(claim))
        return claim


class TestTwoSumsOfDuplicates(Stage):
    def test_count_each_duplicate_once(self, one: Session, two: Session) -> None:
        held = self.claimed()
        for _ in range(5):
            self.store().record_duplicate(held.call, place="worker", reason="in_progress")
        one.begin()
        assert one.do(lambda store: store.sum_duplicates(bite=3)) == 3
        second = waiting(two, lambda store: store.sum_duplicates(bite=9), for_=one)
        one.commit()
        assert second.result(PATIENCE) == 2
        assert self.row(held).duplicates == 5


class TestSweepAndOwner(Stage):
    @BOTH_ENDS
    def test_a_completion_waits_for_a_sweep_and_loses_if_it_stands(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        held = self.claimed()
        with shifted(LEASE + 1):
            one.begin()
            assert [row.digest for row in one.do(sweep())] == [held.digest]
            completed = waiting(two, complete(held), for_=one)
            end(one, commits=commits)
            assert completed.result(PATIENCE) is not commits
        assert self.seen(held.call).state is (State.RETRY if commits else State.SUCCEEDED)

    @BOTH_ENDS
    def test_a_sweep_passes_over_a_completion_and_never_undoes_it(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        held = self.claimed()
        with shifted(LEASE + 1):
            one.begin()
            one.do(complete(held))
            assert two.do(sweep()) == []
            end(one, commits=commits)
            swept = [row.digest for row in two.do(sweep())]
        assert swept == ([] if commits else [held.digest])
        assert self.seen(held.call).state is (State.SUCCEEDED if commits else State.RETRY)

    def test_a_sweep_never_undoes_a_completion_and_a_new_claim(self, one: Session, two: Session) -> None:
        held = self.claimed()
        with shifted(LEASE + 1):
            one.begin()
            one.do(complete(held, retention=0))
            assert two.do(sweep()) == []
            one.commit()
            anew = self.claimed_anew(self.call("B", of=held.call))
            with self.untouched(anew):
                assert two.do(sweep()) == []

    @BOTH_ENDS
    def test_a_heartbeat_passes_over_a_sweep_and_renews_only_what_that_has_not_freed(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        held = self.claimed()
        with shifted(LEASE + 1):
            one.begin()
            one.do(sweep())
            assert two.do(renew(held)) == set()
            end(one, commits=commits)
            assert two.do(renew(held)) == (set() if commits else {held.digest})

    @BOTH_ENDS
    def test_a_sweep_passes_over_a_heartbeat_in_time(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        held = self.claimed()
        with shifted(LEASE - 10):
            one.begin()
            one.do(renew(held))
        with shifted(LEASE + 1):
            assert two.do(sweep()) == []
            end(one, commits=commits)
            assert [row.digest for row in two.do(sweep())] == ([] if commits else [held.digest])

    @BOTH_ENDS
    def test_a_takeover_waits_for_a_sweep_and_has_to_read_again_if_it_stands(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        held = self.claimed()
        with shifted(LEASE + 1):
            seen = self.seen(held.call)
            one.begin()
            one.do(sweep())
            taken = waiting(two, take_over(held.call, seen), for_=one)
            end(one, commits=commits)
            assert (taken.result(PATIENCE) is None) is commits
            if commits:
                assert two.do(take_over(held.call, self.seen(held.call))) is not None
        assert self.seen(held.call).crashes == 1
