"""A reservation meets a cancel, a sweep, a prune, a completion and the claim of another call."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Call, Claimed, Grant, Refused, Reserved
from django_idempotent_tasks.states import State
from django_idempotent_tasks.testing.contract.bench import new_owner
from tests.races.staging import BOTH_ENDS, LEASE, REPUBLISH, WINDOW, Stage, claim, end, reserve, waiting
from tests.races.test_settling import complete
from tests.races.test_sweeps import sweep
from tests.races.watch import Watch, watch
from tests.support.ledger.session import Session, Work
from tests.support.waiting import PATIENCE

__all__ = ["watch"]

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]


def cancel(call: Call) -> Work[bool]:
    return lambda store: store.cancel(call.identity.digest, window=WINDOW)


def revoke(call: Call) -> Work[int]:
    return lambda store: store.cancel_waiting([call.task_id], window=WINDOW)


def expire(call: Call) -> Work[bool]:
    return lambda store: store.expire(call.identity.digest, task_id=call.task_id, window=WINDOW)


def begin_work(call: Call) -> Work[Grant | None]:
    return lambda store: store.claim_reserved(call, owner=new_owner(), lease=LEASE)


def prune() -> Work[int]:
    return lambda store: store.prune(State.SUCCEEDED, bite=9)


Ending = Callable[[Call], Work[object]]

ENDS = pytest.mark.parametrize("ends", [cancel, revoke, expire], ids=["cancel", "revoke", "expire"])


class TestACancel(Stage):
    @ENDS
    def test_does_not_see_a_reservation_before_it_is_committed(
        self, one: Session, two: Session, ends: Ending
    ) -> None:
        call = self.call()
        one.begin()
        one.do(reserve(call))
        assert not two.do(ends(call))
        one.commit()
        assert two.do(ends(call))
        assert self.seen(call).state is State.CANCELLED

    @ENDS
    @BOTH_ENDS
    def test_is_seen_by_the_next_sender_when_it_is_committed(
        self, one: Session, two: Session, watch: Watch, ends: Ending, *, commits: bool
    ) -> None:
        call = self.reserved()
        one.begin()
        assert one.do(ends(call))
        other = self.call("B", of=call)
        outcome = two.do(reserve(other))
        assert isinstance(outcome, Refused)
        assert (outcome.holder, watch.naps) == ("A", [])
        end(one, commits=commits)
        assert isinstance(two.do(reserve(other)), Reserved if commits else Refused)

    @ENDS
    @BOTH_ENDS
    def test_that_came_first_leaves_nothing_to_run(
        self, one: Session, two: Session, ends: Ending, *, commits: bool
    ) -> None:
        call = self.reserved()
        one.begin()
        assert one.do(ends(call))
        begun = waiting(two, begin_work(call), for_=one)
        end(one, commits=commits)
        assert (begun.result(PATIENCE) is None) is commits

    @ENDS
    def test_that_comes_second_does_not_wait_for_the_claim(
        self, one: Session, two: Session, ends: Ending
    ) -> None:
        call = self.reserved()
        one.begin()
        one.do(begin_work(call))
        assert not two.do(ends(call))
        one.commit()
        assert self.seen(call).state is State.RUNNING


class TestASweep(Stage):
    @BOTH_ENDS
    def test_sends_a_reservation_only_once_it_is_committed(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        call = self.call()
        one.begin()
        one.do(reserve(call, wait=0))
        assert two.do(sweep()) == []
        end(one, commits=commits)
        assert [row.task for row in two.do(sweep())] == (["shop.charge"] if commits else [])

    def test_keeps_no_sender_waiting(self, one: Session, two: Session, watch: Watch) -> None:
        call = self.reserved(wait=0)
        one.begin()
        assert len(one.do(sweep())) == 1
        outcome = two.do(reserve(self.call("B", of=call)))
        assert isinstance(outcome, Refused)
        assert (outcome.holder, watch.naps) == ("A", [])
        one.commit()

    @BOTH_ENDS
    def test_that_sends_again_does_not_stop_the_message_that_arrives(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        call = self.reserved(wait=0)
        one.begin()
        one.do(sweep())
        begun = waiting(two, begin_work(call), for_=one)
        end(one, commits=commits)
        assert begun.result(PATIENCE) is not None
        assert self.row(call).sends == 0

    def test_passes_over_a_reservation_that_is_being_claimed(self, one: Session, two: Session) -> None:
        call = self.reserved(wait=0)
        one.begin()
        one.do(begin_work(call))
        assert two.do(sweep()) == []
        one.rollback()
        assert [row.state for row in two.do(sweep())] == [State.PENDING]


class TestAPrune(Stage):
    @BOTH_ENDS
    def test_keeps_a_sender_waiting_for_a_moment(
        self, one: Session, two: Session, watch: Watch, *, commits: bool
    ) -> None:
        finished = self.completed(retention=0).call
        with shifted(WINDOW + 1):
            one.begin()
            assert one.do(prune()) == 1
            watch.may_go_on.clear()
            late = two.start(reserve(self.call("B", of=finished)))
            assert watch.has_napped.wait(PATIENCE)
            end(one, commits=commits)
            watch.may_go_on.set()
            assert isinstance(late.result(PATIENCE), Reserved)
        entry = self.seen(finished)
        assert (entry.task_id, entry.generation) == ("B", 1 if commits else 2)

    @BOTH_ENDS
    def test_passes_over_a_key_that_is_being_reserved_anew(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        finished = self.completed(retention=0).call
        with shifted(WINDOW + 1):
            one.begin()
            assert isinstance(one.do(reserve(self.call("B", of=finished))), Reserved)
            assert two.do(prune()) == 0
            end(one, commits=commits)
            assert two.do(prune()) == (0 if commits else 1)


class TestACompletion(Stage):
    @BOTH_ENDS
    def test_in_an_open_transaction_keeps_no_sender_waiting(
        self, one: Session, two: Session, watch: Watch, *, commits: bool
    ) -> None:
        held = self.claimed()
        one.begin()
        assert one.do(complete(held))
        outcome = two.do(reserve(self.call("B", of=held.call)))
        assert isinstance(outcome, Refused)
        assert (outcome.holder, outcome.answer.state, watch.naps) == ("A", State.RUNNING, [])
        end(one, commits=commits)


class TestAClaimByAnotherCall(Stage):
    """A message that was sent by name, and not reserved, for a key that a sender reserves."""

    @BOTH_ENDS
    def test_waits_for_the_reservation_and_runs_only_without_it(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        call = self.call()
        one.begin()
        one.do(reserve(call))
        late = waiting(two, claim(self.call("B", of=call)), for_=one)
        end(one, commits=commits)
        outcome = late.result(PATIENCE)
        if commits:
            assert isinstance(outcome, Refused)
            assert (outcome.holder, outcome.answer.state) == ("A", State.PENDING)
        else:
            assert isinstance(outcome, Claimed)

    def test_never_takes_a_reservation_however_old(self) -> None:
        call = self.reserved()
        with shifted(100 * REPUBLISH), self.untouched(call):
            outcome = claim(self.call("B", of=call))(self.store())
        assert isinstance(outcome, Refused)
        assert outcome.holder == "A"

    @BOTH_ENDS
    def test_in_an_open_transaction_keeps_a_sender_waiting_no_longer_than_another_sender(
        self, one: Session, two: Session, watch: Watch, *, commits: bool
    ) -> None:
        call = self.call("B")
        one.begin()
        assert isinstance(one.do(claim(call)), Claimed)
        outcome = two.do(reserve(self.call("A", of=call)))
        assert isinstance(outcome, Refused)
        assert outcome.holder == ""
        assert 1.9 < sum(watch.naps) < 2.2
        end(one, commits=commits)
        assert isinstance(two.do(reserve(self.call("A", of=call))), Refused if commits else Reserved)
