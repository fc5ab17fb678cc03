"""One transaction with more reservations than it may take locks for: the same answers, a bounded table."""

from __future__ import annotations

import pytest
from django.db import OperationalError, connection, transaction

from django_idempotent_tasks.ledger.stores import LedgerStore, locks
from django_idempotent_tasks.ledger.values import Call, Refused, Reserved
from django_idempotent_tasks.states import State
from tests.races.staging import BOTH_ENDS, Stage, end, reserve
from tests.races.watch import Watch, watch
from tests.support.ledger.session import Session
from tests.support.ledger.statements import verbs
from tests.support.waiting import PATIENCE

__all__ = ["watch"]

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]

FEW = 3
MANY = 10


@pytest.fixture(autouse=True)
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "LOCK_LIMIT", FEW)
    monkeypatch.setattr(locks, "SHORT_WAIT", 20)


def locks_of(pid: int) -> int:
    """The advisory locks that the transaction of a server process holds."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = %s", [pid])
        return int(cursor.fetchone()[0])


def lock_of(call: Call) -> int:
    """The number of a key's lock."""
    return int.from_bytes(call.identity.digest.bytes[:8], signed=True)


class Many(Stage):
    def reserve_many(self, one: Session) -> list[Call]:
        """Reserve more keys than may have locks, in a transaction that stays open."""
        calls = [self.call() for _ in range(MANY)]
        one.begin()
        for call in calls:
            assert isinstance(one.do(reserve(call)), Reserved)
        return calls


class TestManyReservations(Many):
    def test_take_no_more_than_their_share_of_locks(self, one: Session) -> None:
        self.reserve_many(one)
        assert locks_of(one.pid) == FEW + 1
        one.commit()
        assert locks_of(one.pid) == 0

    @BOTH_ENDS
    def test_are_all_held_until_the_end_and_then_as_it_ended(
        self, one: Session, two: Session, watch: Watch, *, commits: bool
    ) -> None:
        calls = self.reserve_many(one)
        for call in (calls[0], calls[-1]):
            outcome = two.do(reserve(self.call("B", of=call)))
            assert isinstance(outcome, Refused)
            assert outcome.holder == ""
        assert sum(watch.naps) < 2 * 2.2
        end(one, commits=commits)
        for call in calls:
            outcome = two.do(reserve(self.call("B", of=call)))
            assert isinstance(outcome, Refused if commits else Reserved)
            assert self.seen(call).task_id == ("A" if commits else "B")

    def test_refuse_a_key_that_was_accepted_before(self, one: Session) -> None:
        accepted = self.reserved()
        calls = self.reserve_many(one)
        for call in (accepted, calls[0], calls[-1]):
            outcome = one.do(reserve(self.call("B", of=call)))
            assert isinstance(outcome, Refused)
            assert (outcome.holder, outcome.answer.state) == ("A", State.PENDING)
        one.commit()

    def test_reserve_finished_keys_like_few_do(self, one: Session) -> None:
        finished = self.completed(retention=0).call
        self.reserve_many(one)
        assert isinstance(one.do(reserve(self.call("B", of=finished))), Reserved)
        one.commit()
        assert (self.seen(finished).task_id, self.seen(finished).was_answered) == ("B", True)

    @pytest.mark.parametrize("many_too", [True, False], ids=["by another with many", "by one with few"])
    def test_pass_over_a_key_that_is_held(
        self, one: Session, two: Session, watch: Watch, *, many_too: bool
    ) -> None:
        held, last = self.call("B"), self.call()
        if many_too:
            self.reserve_many(two)
        else:
            two.begin()
        two.do(reserve(held))
        self.reserve_many(one)
        outcome = one.do(reserve(self.call(of=held)))
        assert isinstance(outcome, Refused)
        assert outcome.holder == ""
        assert isinstance(one.do(reserve(last)), Reserved)
        assert watch.naps
        one.commit()
        two.commit()
        assert (self.seen(held).task_id, self.seen(last).task_id) == ("B", "A")

    def test_pass_over_a_key_that_is_about_to_be_reserved(
        self, one: Session, two: Session, watch: Watch
    ) -> None:
        """The other has found nobody with many before these were, and has not inserted yet."""
        call = self.call()
        two.begin()
        assert two.sql(f"SELECT pg_try_advisory_xact_lock({lock_of(call)})") is True
        self.reserve_many(one)
        assert isinstance(one.do(reserve(self.call("B", of=call))), Refused)
        assert watch.naps
        assert isinstance(two.do(reserve(call)), Reserved)
        one.commit()
        two.commit()
        assert self.seen(call).task_id == "A"

    def test_leave_lock_timeout_as_it_was(self, one: Session, two: Session, watch: Watch) -> None:
        held = self.call("B")
        two.begin()
        two.do(reserve(held))
        one.sql("SET lock_timeout = '7s'")
        calls = self.reserve_many(one)
        assert one.sql("SHOW lock_timeout") == "7s"
        for call in (held, calls[-1]):
            assert isinstance(one.do(reserve(self.call("C", of=call))), Refused)
            assert one.sql("SHOW lock_timeout") == "7s"
        one.sql("SET LOCAL lock_timeout = '8s'")
        one.do(reserve(self.call()))
        assert one.sql("SHOW lock_timeout") == "8s"
        one.commit()
        assert one.sql("SHOW lock_timeout") == "7s"
        assert watch.naps
        two.rollback()

    def test_pass_every_other_error_on(
        self, one: Session, two: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(locks, "SHORT_WAIT", 60_000)
        held = self.reserve_many(two)[-1]
        self.reserve_many(one)
        one.sql("SET LOCAL statement_timeout = '50ms'")
        with pytest.raises(OperationalError, match="statement timeout"):
            one.do(reserve(self.call("B", of=held)))
        one.rollback()
        two.commit()


class TestASavepoint(Many):
    def test_that_is_undone_gives_its_keys_back_at_once(
        self, one: Session, two: Session, watch: Watch
    ) -> None:
        kept, undone = [self.call() for _ in range(MANY)], [self.call() for _ in range(MANY)]

        def reserve_and_undo(store: LedgerStore) -> None:
            for call in kept:
                reserve(call)(store)
            with transaction.atomic():
                for call in undone:
                    reserve(call)(store)
                transaction.set_rollback(True)

        one.begin()
        one.do(reserve_and_undo)
        for call in undone:
            assert isinstance(two.do(reserve(self.call("B", of=call))), Reserved)
        assert watch.naps == []
        assert isinstance(two.do(reserve(self.call("B", of=kept[-1]))), Refused)
        one.commit()
        assert {self.seen(call).task_id for call in kept} == {"A"}

    def test_with_everything_in_it_that_is_undone_leaves_nobody_waiting(
        self, one: Session, two: Session, watch: Watch
    ) -> None:
        calls = [self.call() for _ in range(MANY)]

        def reserve_and_undo(store: LedgerStore) -> None:
            with transaction.atomic():
                for call in calls:
                    reserve(call)(store)
                transaction.set_rollback(True)
            reserve(calls[0])(store)

        one.begin()
        one.do(reserve_and_undo)
        assert locks_of(one.pid) == 1
        assert isinstance(two.do(reserve(self.call("B", of=calls[-1]))), Reserved)
        assert watch.naps == []
        one.commit()


class TestOthers(Many):
    """Who has few reservations pays for the many of another only while it is open."""

    def test_reserve_in_one_statement_once_the_many_are_committed(self, one: Session) -> None:
        self.reserve_many(one)
        assert verbs("default", reserve(self.call()))[0] == "WITH"
        assert len(verbs("default", reserve(self.call()))) > 1
        one.commit()
        assert verbs("default", reserve(self.call())) == ["WITH"]

    def test_that_met_the_many_are_not_taken_for_many_themselves(self, one: Session, two: Session) -> None:
        self.reserve_many(one)
        two.begin()
        assert isinstance(two.do(reserve(self.call())), Reserved)
        one.commit()
        assert verbs("default", reserve(self.call())) == ["WITH"]
        two.commit()


class TestTwentyThousand(Stage):
    @pytest.mark.slow
    def test_reservations_in_one_transaction_leave_room_in_the_lock_table(
        self, one: Session, two: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.undo()
        count = 20_000
        calls, one_pid = [self.call() for _ in range(count)], one.pid

        def reserve_all(store: LedgerStore) -> int:
            with transaction.atomic():
                made = sum(isinstance(reserve(call)(store), Reserved) for call in calls)
                assert isinstance(two.do(reserve(self.call("B"))), Reserved)
                assert locks_of(one_pid) == locks.LOCK_LIMIT + 1
                return made

        assert one.start(reserve_all).result(20 * PATIENCE) == count
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM django_idempotent_tasks_idempotencykey")
            assert cursor.fetchone()[0] == count + 1
