"""Two clients of MariaDB or MySQL at one key, or at keys side by side: who waits, for what, and how long."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from django_idempotent_tasks.ledger.stores import LedgerStore
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Call, Claimed, Refused, Waiting
from django_idempotent_tasks.states import State
from django_idempotent_tasks.testing.contract.bench import new_owner
from django_idempotent_tasks.testing.contract.meeting import Meeting
from tests.races.conftest import OpenSession
from tests.races.mysql import ALIAS, MysqlStage, mark, wait_until_blocked
from tests.races.staging import LEASE, REPUBLISH, WINDOW, claim, insert, reserve, run
from tests.support.ledger.session import Session, Work
from tests.support.waiting import PATIENCE

pytestmark = mark

#: Seconds. The wait for a lock is one; the server's own default is fifty.
BOUND = 10


@pytest.fixture
def one(open_session: OpenSession) -> Session:
    return open_session(ALIAS)


@pytest.fixture
def two(open_session: OpenSession) -> Session:
    return open_session(ALIAS)


@pytest.fixture
def three(open_session: OpenSession) -> Session:
    return open_session(ALIAS)


def hold(call: Call) -> Work[bool]:
    """Hold the key for the session's transaction."""

    def work(store: LedgerStore) -> bool:
        with store.holding(call) as alone:
            return alone

    return work


class TestAnUncommittedRow(MysqlStage):
    """There is no lock for a key without a row: who inserts beside another one waits, for a second."""

    @pytest.mark.parametrize("beside", [insert, run, claim, reserve], ids=lambda verb: verb.__name__)
    def test_is_not_waited_for_to_its_end(
        self, one: Session, two: Session, beside: Callable[[Call], Work[object]]
    ) -> None:
        call = self.call()
        one.begin()
        assert one.do(insert(call)) is not None
        two.begin()
        began = time.monotonic()
        outcome = two.do(beside(self.call("B", of=call)))
        assert time.monotonic() - began < BOUND
        assert outcome is None or isinstance(outcome, Waiting | Refused)
        two.commit()
        one.commit()
        assert self.seen(call).task_id == "A"

    def test_is_not_waited_for_where_a_statement_cannot_bring_its_own_limit(
        self, one: Session, two: Session
    ) -> None:
        """That is MySQL's case: the session's limit is changed for the statement, and given back."""
        call, late = self.call(), self.call("B")

        def insert_as_on_mysql(store: LedgerStore) -> list[object]:
            vars(store)["_is_mariadb"] = False
            return [insert(each)(store) for each in (self.call("B", of=call), late)]

        limit = two.sql("SELECT @@innodb_lock_wait_timeout")
        one.begin()
        one.do(insert(call))
        began = time.monotonic()
        refused, granted = two.do(insert_as_on_mysql)
        assert time.monotonic() - began < BOUND
        assert (refused, granted is not None) == (None, True)
        assert two.sql("SELECT @@innodb_lock_wait_timeout") == limit
        one.commit()

    def test_leaves_the_key_to_one_of_those_who_wait_when_it_is_rolled_back(
        self, one: Session, two: Session, three: Session
    ) -> None:
        call = self.call()
        late = {two: self.call("B", of=call), three: self.call("C", of=call)}
        threads = {session: session.sql("SELECT connection_id()") for session in late}
        one.begin()
        one.do(insert(call))
        waiting = {session: session.start(claim(theirs)) for session, theirs in late.items()}
        for thread in threads.values():
            wait_until_blocked(one, thread)
        one.rollback()
        outcomes = [future.result(PATIENCE) for future in waiting.values()]
        assert sum(isinstance(outcome, Claimed) for outcome in outcomes) == 1
        assert all(isinstance(outcome, Claimed | Refused | Waiting) for outcome in outcomes)
        assert self.seen(call).task_id in {"B", "C"}

    def test_may_be_held_by_two_and_is_written_by_one(self, one: Session, two: Session) -> None:
        call = self.call()
        one.begin()
        two.begin()
        assert (one.do(hold(call)), two.do(hold(call))) == (True, True)
        assert one.do(insert(call)) is not None
        began = time.monotonic()
        assert two.do(insert(self.call("B", of=call))) is None
        assert time.monotonic() - began < BOUND
        two.commit()
        one.commit()
        assert self.seen(call).task_id == "A"

    def test_that_was_refused_for_the_wait_leaves_the_transaction_whole(
        self, one: Session, two: Session
    ) -> None:
        taken, before, after = self.call(), self.call("B"), self.call("B")
        one.begin()
        one.do(insert(taken))
        two.begin()
        assert two.do(insert(before)) is not None
        assert two.do(insert(self.call("B", of=taken))) is None
        assert two.do(insert(after)) is not None
        two.commit()
        one.commit()
        assert [self.seen(call).task_id for call in (taken, before, after)] == ["A", "B", "B"]


class TestCrossedKeys(MysqlStage):
    """Each of two transactions wants the other's key as well: neither waits, neither is rolled back."""

    def _reserve(self, call: Call) -> Work[object]:
        return lambda store: store.reserve_new(call, wait=REPUBLISH, sends=0)

    def _run(self, call: Call) -> Work[object]:
        return lambda store: store.atomic_new(call, owner=new_owner(), retention=9, window=9)

    @pytest.mark.parametrize("verb", [_reserve, _run], ids=["of senders", "of atomic runs"])
    def test_are_both_refused_and_both_commit(self, one: Session, two: Session, verb: object) -> None:
        left, right = self.call("A"), self.call("B")
        one.begin()
        two.begin()
        assert one.do(verb(self, left)) is not None  # type: ignore[operator]
        assert two.do(verb(self, right)) is not None  # type: ignore[operator]
        assert one.do(verb(self, self.call("A", of=right))) is None  # type: ignore[operator]
        assert two.do(verb(self, self.call("B", of=left))) is None  # type: ignore[operator]
        one.commit()
        two.commit()
        assert [self.seen(call).task_id for call in (left, right)] == ["A", "B"]


class TestNeighbours(MysqlStage, Meeting):
    """A short table is scanned where nothing forbids it: nobody may stop at a row that is not asked for."""

    def test_old_answers_are_pruned_while_a_key_is_being_claimed_anew(self) -> None:
        first = self.completed(retention=0)
        self.claimed_anew(self.call("B", of=first.call))
        other = self.completed(retention=0)
        with shifted(WINDOW + 1):
            anew = self.call("B", of=other.call)
            with self.open_transaction():
                self.claimed_anew(anew, window=9 * WINDOW)
                assert self.without_waiting(lambda store: store.prune_answered(bite=9)) == 1
            assert self.seen(other.call).was_answered is True

    def test_old_duplicates_are_pruned_and_summed_while_another_one_is_being_recorded(self) -> None:
        call, other = self.claimed().call, self.claimed().call
        self.store().record_duplicate(call, place="worker", reason="in_progress")
        with shifted(WINDOW), self.open_transaction():
            self.store().record_duplicate(other, place="worker", reason="in_progress")
            assert self.without_waiting(lambda store: store.sum_duplicates(bite=9)) == 1
            assert self.without_waiting(lambda store: store.prune_duplicates(keep=LEASE, bite=9)) == 1
        assert (self.row(call).duplicates, self.row(other).duplicates) == (1, 0)

    def test_duplicates_are_summed_while_another_key_is_held(self) -> None:
        call, held = self.claimed().call, self.claimed()
        for _ in range(2):
            self.store().record_duplicate(call, place="worker", reason="in_progress")
        with self.completing(held):
            assert self.without_waiting(lambda store: store.sum_duplicates(bite=9)) == 2
        assert self.row(call).duplicates == 2

    def test_several_rows_are_written_while_others_between_them_are_held(self) -> None:
        claims = [self.claimed() for _ in range(9)]
        held, free = claims[::3], [each for each in claims if each not in claims[::3]]
        with self.open_transaction():
            assert all(self.complete(each) for each in held)
            assert self.without_waiting(lambda store: store.renew(claims)) == {each.digest for each in free}
            with shifted(LEASE + 1):
                swept = self.without_waiting(lambda store: store.sweep(bite=99, republish=REPUBLISH))
            assert {row.digest for row in swept} == {each.digest for each in free}
            assert self.without_waiting(lambda store: store.cancel_waiting(["A"], window=WINDOW)) == len(free)
        states = [self.seen(each.call).state for each in claims]
        assert states.count(State.SUCCEEDED) == len(held)

    def test_a_finished_key_that_a_side_connection_holds_is_held_until_its_end(self) -> None:
        """BEGIN in a transaction would commit it, and let the key go."""
        finished = self.completed(retention=0)
        call, seen = self.call("B", of=finished.call), self.seen(self.call("B", of=finished.call))
        with self.store().side_connection() as side, side.holding(call) as alone:
            assert alone is True
            assert side.claim_finished(call, owner="w:1:b", lease=LEASE, seen=seen, window=WINDOW) is not None
            assert self.without_waiting(hold(finished.call)) is False
            assert self.seen(finished.call).task_id == "A", "not yet committed"
        assert self.seen(call).task_id == "B"
