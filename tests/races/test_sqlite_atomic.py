"""Atomic runs on one SQLite file: the whole database waits for an open one, and then sees how it ended."""

from __future__ import annotations

import threading

import pytest

from django_idempotent_tasks.ledger.atomic import ANY_TOKEN, Recorded
from django_idempotent_tasks.ledger.stores import LedgerStore
from django_idempotent_tasks.ledger.values import Answered, Call, Claimed, Outcome, Refused
from django_idempotent_tasks.states import State
from tests.races.conftest import OpenSession
from tests.races.staging import BOTH_ENDS, end, record, reserve, run
from tests.races.test_atomic_claimers import at_once
from tests.races.test_sqlite_writers import Ledgers, is_waiting, one, two
from tests.support.ledger.session import Session
from tests.support.waiting import PATIENCE

__all__ = ["one", "two"]

pytestmark = pytest.mark.django_db(
    transaction=True, databases=["default", "sqlite"], available_apps=["django_idempotent_tasks"]
)

CLAIMERS = 12


class TestAnOpenRun(Ledgers):
    @BOTH_ENDS
    def test_is_waited_for_by_another_run_of_its_key(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        for other, refused in ((self.call("A"), Answered), (self.call("B"), Refused)):
            call = self.call(of=other)
            one.begin()
            assert isinstance(one.do(run(call)), Claimed)
            late = two.start(at_once(other))
            assert is_waiting(late)
            end(one, commits=commits)
            assert isinstance(late.result(PATIENCE), refused if commits else Claimed)

    @BOTH_ENDS
    def test_is_waited_for_by_a_record_that_never_overwrites_its_success(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        for seen in (0, ANY_TOKEN):
            call = self.reserved()
            one.begin()
            assert isinstance(one.do(run(call)), Claimed)
            late = two.start(record(call, seen=seen))
            assert is_waiting(late)
            end(one, commits=commits)
            assert late.result(PATIENCE) is (Recorded.MOVED if commits else Recorded.DONE)
            assert self.seen(call).state is (State.SUCCEEDED if commits else State.RETRY)

    def test_is_not_seen_before_its_commit(self, one: Session, two: Session) -> None:
        call = self.reserved()
        one.begin()
        one.do(run(call))
        assert self._state(two, call) is State.PENDING
        one.commit()
        assert self._state(two, call) is State.SUCCEEDED

    @BOTH_ENDS
    def test_takes_its_reservations_with_it(self, one: Session, two: Session, *, commits: bool) -> None:
        call, child = self.call(), self.call("child")
        one.begin()
        one.do(run(call))
        one.do(reserve(child))
        end(one, commits=commits)
        assert (self._state(two, child) is State.PENDING) is commits

    def _state(self, session: Session, call: Call) -> State | None:
        entry = session.do(lambda store: store.read(call.identity.digest, task_id=call.task_id))
        return entry.state if entry else None


class TestTwelveRuns(Ledgers):
    @pytest.mark.parametrize("reserved", [True, False])
    def test_of_one_key_commit_once(self, open_session: OpenSession, *, reserved: bool) -> None:
        call = self.reserved() if reserved else self.call()
        sessions = [open_session("sqlite") for _ in range(CLAIMERS)]
        together = threading.Barrier(CLAIMERS)

        def begin(store: LedgerStore) -> Outcome:
            store.read(call.identity.digest, task_id="A")
            together.wait(PATIENCE)
            return at_once(call)(store)

        futures = [session.start(begin) for session in sessions]
        outcomes = [future.result(PATIENCE) for future in futures]
        assert sum(isinstance(outcome, Claimed) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, Answered) for outcome in outcomes) == CLAIMERS - 1


class TestASideConnection(Ledgers):
    def test_that_holds_a_key_is_overtaken_by_nobody(self, two: Session) -> None:
        """Its transaction has begun as a writer: what it reads is still so when it writes."""
        call = self.reserved()
        with self.store().side_connection() as side, side.holding(call) as alone:
            assert alone is True
            late = two.start(at_once(call))
            assert is_waiting(late)
            seen = side.read(call.identity.digest, task_id="A")
            assert seen is not None
            assert side.claim_open(call, owner="w:2:b", lease=60, seen=seen) is not None
        assert not isinstance(late.result(PATIENCE), Claimed)
