"""Senders meet each other: one has the key, the others hear whose it is, and nobody waits for long."""

from __future__ import annotations

import time
from concurrent.futures import Future

import pytest
from django.db import transaction

from django_idempotent_tasks.ledger.stores import LedgerStore, locks
from django_idempotent_tasks.ledger.values import Abandoned, Call, Refused, Reserved
from django_idempotent_tasks.states import State
from tests.races.conftest import OpenSession
from tests.races.staging import BOTH_ENDS, Stage, end, reserve
from tests.races.test_many_claimers import race
from tests.races.watch import Watch, watch
from tests.support.ledger.session import Session, Work
from tests.support.waiting import PATIENCE

__all__ = ["watch"]

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]

SENDERS = 50

Outcome = Reserved | Refused | Abandoned


@pytest.fixture
def senders(open_session: OpenSession) -> list[Session]:
    sessions = [open_session("default") for _ in range(SENDERS)]
    for session in sessions:
        session.sql("SELECT 1")  # connected before the race begins
    return sessions


def in_transaction(work: Work[Outcome]) -> Work[Outcome]:
    def run(store: LedgerStore) -> Outcome:
        with transaction.atomic():
            return work(store)

    return run


class TestFiftySenders(Stage):
    """All at once; each round one of them has the key and the others are told who."""

    def test_of_a_new_key_have_one_that_reserves_it(self, senders: list[Session]) -> None:
        self._one_reserves(senders, self.call("old"))

    def test_in_transactions_have_one_that_reserves_it(self, senders: list[Session]) -> None:
        key = self.call("old")
        outcomes = race(senders, lambda number: in_transaction(reserve(self.call(str(number), of=key))))
        self._is_told_to_the_others(outcomes, key)

    def test_of_a_finished_key_have_one_that_reserves_it(self, senders: list[Session]) -> None:
        key = self.completed(self.claimed(self.call("old")), retention=0).call
        self._one_reserves(senders, key)
        assert self.seen(key).was_answered is True

    def test_find_the_key_free_while_another_key_is_held_by_many(
        self, senders: list[Session], one: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(locks, "LOCK_LIMIT", 0)
        one.begin()
        assert isinstance(one.do(reserve(self.call())), Reserved)
        monkeypatch.undo()
        self._one_reserves(senders, self.call("old"))
        one.commit()

    def test_without_a_lock_left_have_one_that_reserves_it(
        self, senders: list[Session], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(locks, "LOCK_LIMIT", 0)
        self._one_reserves(senders, self.call("old"))

    def _one_reserves(self, senders: list[Session], key: Call) -> None:
        outcomes = race(senders, lambda number: reserve(self.call(str(number), of=key)))
        self._is_told_to_the_others(outcomes, key)

    def _is_told_to_the_others(self, outcomes: list[Outcome], key: Call) -> None:
        (winner,) = (str(number) for number, outcome in enumerate(outcomes) if isinstance(outcome, Reserved))
        others = [outcome for outcome in outcomes if not isinstance(outcome, Reserved)]
        assert len(others) == SENDERS - 1
        for outcome in others:
            assert isinstance(outcome, Refused)
            assert (outcome.holder, outcome.reason, outcome.answer.state) == (winner, "in_progress", 1)
        assert self.seen(key).task_id == winner


@pytest.fixture(params=[1000, 0], ids=["with a lock each", "without locks"])
def lock_limit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "LOCK_LIMIT", request.param)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty attempts without a lock wait for a short time each."""
    monkeypatch.setattr(locks, "SHORT_WAIT", 5)


@pytest.mark.usefixtures("lock_limit", "quick")
class TestAnUncommittedReservation(Stage):
    @BOTH_ENDS
    def test_is_waited_for_and_then_seen_as_it_ended(
        self, one: Session, two: Session, watch: Watch, *, commits: bool
    ) -> None:
        call = self.call()
        late = self._meets(one, two, watch, call)
        end(one, commits=commits)
        watch.may_go_on.set()
        outcome = late.result(PATIENCE)
        if commits:
            assert isinstance(outcome, Refused)
            assert (outcome.holder, outcome.answer.state) == ("A", State.PENDING)
        else:
            assert isinstance(outcome, Reserved)
        assert self.seen(call).task_id == ("A" if commits else "B")

    @BOTH_ENDS
    def test_of_a_finished_key_is_waited_for_and_then_seen_as_it_ended(
        self, one: Session, two: Session, watch: Watch, *, commits: bool
    ) -> None:
        finished = self.completed(self.claimed(self.call("old")), retention=0).call
        late = self._meets(one, two, watch, self.call("A", of=finished))
        end(one, commits=commits)
        watch.may_go_on.set()
        outcome = late.result(PATIENCE)
        assert isinstance(outcome, Refused if commits else Reserved)
        assert self.seen(finished).task_id == ("A" if commits else "B")

    def test_that_lasts_is_answered_after_two_seconds_as_if_it_stood(
        self, one: Session, two: Session, watch: Watch
    ) -> None:
        late = self._meets(one, two, watch, self.call())
        watch.may_go_on.set()
        outcome = late.result(PATIENCE)
        assert isinstance(outcome, Refused)
        assert (outcome.holder, outcome.reason, outcome.answer.state) == ("", "in_progress", State.PENDING)
        assert 1.9 < sum(watch.naps) < 2.2
        one.commit()

    def test_leaves_the_transaction_of_who_met_it_whole(
        self, one: Session, two: Session, watch: Watch
    ) -> None:
        call, other = self.call(), self.call("B")
        one.begin()
        one.do(reserve(call))
        two.begin()
        assert isinstance(two.do(reserve(self.call("B", of=call))), Refused)
        assert isinstance(two.do(reserve(other)), Reserved)
        two.commit()
        one.rollback()
        assert watch.naps
        assert (self.columns(call), self.seen(other).task_id) == (None, "B")

    def test_is_gone_with_its_savepoint_for_others_at_once(
        self, one: Session, two: Session, watch: Watch
    ) -> None:
        call, kept = self.call(), self.call()

        def reserve_and_undo(store: LedgerStore) -> None:
            reserve(kept)(store)
            with transaction.atomic():
                reserve(call)(store)
                transaction.set_rollback(True)

        one.begin()
        one.do(reserve_and_undo)
        assert isinstance(two.do(reserve(self.call("B", of=call))), Reserved)
        assert watch.naps == []
        assert isinstance(one.do(reserve(call)), Refused)
        one.commit()
        assert (self.seen(call).task_id, self.seen(kept).task_id) == ("B", "A")

    def test_crossed_with_another_ends_in_two_refusals_and_no_deadlock(
        self, one: Session, two: Session, watch: Watch
    ) -> None:
        self._crossed(one, two)
        assert max(watch.naps) < 0.1

    def test_crossed_with_another_is_no_error_where_deadlocks_are_found_at_once(
        self, one: Session, two: Session, watch: Watch
    ) -> None:
        for session in (one, two):
            session.sql("SET deadlock_timeout = '1ms'")
        self._crossed(one, two)
        assert watch.naps

    def _crossed(self, one: Session, two: Session) -> None:
        left, right = self.call("A"), self.call("B")
        one.begin()
        two.begin()
        one.do(reserve(left))
        two.do(reserve(right))
        second = one.start(reserve(self.call("A", of=right))), two.start(reserve(self.call("B", of=left)))
        for future in second:
            outcome = future.result(PATIENCE)
            assert isinstance(outcome, Refused)
            assert outcome.holder == ""
        one.commit()
        two.commit()
        assert (self.seen(left).task_id, self.seen(right).task_id) == ("A", "B")

    def _meets(self, one: Session, two: Session, watch: Watch, call: Call) -> Future[Outcome]:
        """Another sender of the same key, who has found it held and has not looked again."""
        one.begin()
        assert isinstance(one.do(reserve(call)), Reserved)
        watch.may_go_on.clear()
        late = two.start(reserve(self.call("B", of=call)))
        assert watch.has_napped.wait(PATIENCE)
        return late


@pytest.mark.usefixtures("lock_limit")
class TestTwoSeconds(Stage):
    def test_by_the_wall_clock_is_what_a_sender_waits(self, one: Session, two: Session) -> None:
        call = self.call()
        one.begin()
        one.do(reserve(call))
        began = time.monotonic()
        assert isinstance(two.do(reserve(self.call("B", of=call))), Refused)
        assert 1.9 < time.monotonic() - began < 10
        one.commit()
