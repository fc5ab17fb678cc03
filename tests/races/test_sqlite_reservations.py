"""Senders on SQLite: one writes at a time, and whoever comes next sees how that ended."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest
from django.db import transaction

from django_idempotent_tasks.ledger.stores import LedgerStore
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Abandoned, Call, Refused, Reserved
from django_idempotent_tasks.states import State
from django_idempotent_tasks.testing.contract.bench import LEASE, REPUBLISH, WINDOW, new_owner
from tests.races.conftest import OpenSession
from tests.races.staging import BOTH_ENDS, end, reserve
from tests.races.test_sqlite_writers import Ledgers, is_waiting, one, two
from tests.support.ledger.session import Session
from tests.support.waiting import PATIENCE

__all__ = ["one", "two"]

pytestmark = pytest.mark.django_db(
    transaction=True, databases=["default", "sqlite"], available_apps=["django_idempotent_tasks"]
)

SENDERS = 50

Outcome = Reserved | Refused | Abandoned


class TestFiftySenders(Ledgers):
    def test_of_a_new_key_have_one_that_reserves_it(self, open_session: OpenSession) -> None:
        self._one_reserves(open_session, self.call("old"))

    def test_of_a_finished_key_have_one_that_reserves_it(self, open_session: OpenSession) -> None:
        key = self.completed(self.claimed(self.call("old")), retention=0).call
        self._one_reserves(open_session, key)
        assert self.seen(key).was_answered is True

    def test_in_transactions_have_one_that_reserves_it(self, open_session: OpenSession) -> None:
        self._one_reserves(open_session, self.call("old"), in_transaction=True)

    def _one_reserves(self, open_session: OpenSession, key: Call, *, in_transaction: bool = False) -> None:
        sessions = [open_session("sqlite") for _ in range(SENDERS)]
        together = threading.Barrier(len(sessions))

        def run(store: LedgerStore, number: int) -> Outcome:
            store.read(key.identity.digest, task_id="A")
            together.wait(PATIENCE)
            work = reserve(self.call(str(number), of=key))
            if not in_transaction:
                return work(store)
            with transaction.atomic(using="sqlite"):
                return work(store)

        futures = [
            session.start(lambda store, number=number: run(store, number))  # type: ignore[misc]
            for number, session in enumerate(sessions)
        ]
        outcomes: list[Outcome] = [future.result(PATIENCE) for future in futures]
        (winner,) = (str(number) for number, outcome in enumerate(outcomes) if isinstance(outcome, Reserved))
        others = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
        assert len(others) == SENDERS - 1
        assert {outcome.holder for outcome in others} == {winner}
        assert self.seen(key).task_id == winner


class TestAReservation(Ledgers):
    @BOTH_ENDS
    def test_waits_for_an_uncommitted_one_and_then_sees_how_it_ended(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        call = self.call()
        one.begin()
        assert isinstance(one.do(reserve(call)), Reserved)
        late: Future[Outcome] = two.start(reserve(self.call("B", of=call)))
        assert is_waiting(late)
        end(one, commits=commits)
        outcome = late.result(PATIENCE)
        assert isinstance(outcome, Refused if commits else Reserved)
        assert self.seen(call).task_id == ("A" if commits else "B")

    def test_is_gone_with_its_savepoint(self, one: Session) -> None:
        call, kept = self.call(), self.call()

        def reserve_and_undo(store: LedgerStore) -> None:
            reserve(kept)(store)
            with transaction.atomic(using="sqlite"):
                reserve(call)(store)
                transaction.set_rollback(True, using="sqlite")

        one.begin()
        one.do(reserve_and_undo)
        assert isinstance(one.do(reserve(self.call("B", of=call))), Reserved)
        one.commit()
        assert (self.seen(call).task_id, self.seen(kept).task_id) == ("B", "A")

    def test_of_five_thousand_keys_is_made_in_one_transaction(self, one: Session) -> None:
        calls = [self.call() for _ in range(5000)]
        one.begin()
        made = one.do(lambda store: [reserve(call)(store) for call in calls])
        one.commit()
        assert all(isinstance(outcome, Reserved) for outcome in made)
        assert self.seen(calls[-1]).state is State.PENDING

    @BOTH_ENDS
    def test_that_a_sweep_prune_or_cancel_comes_before_is_seen_as_that_left_it(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        swept, cancelled = self.reserved(wait=0), self.reserved()
        pruned = self.completed(retention=0).call
        with shifted(WINDOW + 1):
            one.begin()
            assert one.do(lambda store: store.cancel(cancelled.identity.digest, window=WINDOW))
            assert one.do(lambda store: store.prune(State.SUCCEEDED, bite=9)) == 1
            assert len(one.do(lambda store: store.sweep(bite=9, republish=REPUBLISH))) >= 1
            keys = (swept, cancelled, pruned)
            late = two.start(lambda store: [reserve(self.call("B", of=key))(store) for key in keys])
            assert is_waiting(late)
            end(one, commits=commits)
            outcomes = [type(outcome) for outcome in late.result(PATIENCE)]
        assert outcomes == [Refused, Reserved if commits else Refused, Reserved]
        assert self.seen(pruned).generation == (1 if commits else 2)

    @BOTH_ENDS
    def test_is_begun_by_its_own_call_alone(self, one: Session, two: Session, *, commits: bool) -> None:
        call = self.reserved()
        other = self.call("B", of=call)
        one.begin()
        assert one.do(lambda store: store.claim_reserved(call, owner=new_owner(), lease=LEASE))
        late = two.start(lambda store: store.claim_reserved(other, owner=new_owner(), lease=LEASE))
        assert is_waiting(late)
        end(one, commits=commits)
        assert late.result(PATIENCE) is None
        assert self.seen(call).state is (State.RUNNING if commits else State.PENDING)
