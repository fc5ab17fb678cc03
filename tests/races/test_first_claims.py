"""First claims of one key from two connections, in every isolation and in and out of transactions."""

from __future__ import annotations

from concurrent.futures import wait

import pytest
from django.db import OperationalError, connection, transaction

from django_idempotent_tasks.ledger.stores import LedgerStore
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Claimed, Refused
from tests.races.staging import LEASE, Stage, claim, insert, take_over, waiting
from tests.support.ledger.session import Session
from tests.support.waiting import PATIENCE

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]

SNAPSHOTS = ["REPEATABLE READ", "SERIALIZABLE"]


def code_of(error: BaseException | None) -> str:
    """PostgreSQL's code of an error."""
    return str(getattr(error and error.__cause__, "sqlstate", ""))


class TestAnUncommittedClaim(Stage):
    def test_is_waited_for_and_wins_when_it_is_committed(self, one: Session, two: Session) -> None:
        call = self.call()
        one.begin()
        grant = one.do(lambda store: store.claim_new(call, owner="w:1:first", lease=LEASE))
        assert grant is not None
        late = waiting(two, insert(self.call("B", of=call)), for_=one)
        one.commit()

        assert late.result(PATIENCE) is None
        entry = two.do(lambda store: store.read(call.identity.digest, task_id="B"))
        assert entry is not None
        assert (entry.task_id, entry.owner) == ("A", "w:1:first")

    def test_is_waited_for_and_leaves_the_key_when_it_is_rolled_back(
        self, one: Session, two: Session
    ) -> None:
        call = self.call()
        one.begin()
        one.do(insert(call))
        late = waiting(two, insert(self.call("B", of=call)), for_=one)
        one.rollback()

        assert late.result(PATIENCE) is not None
        assert self.seen(call).task_id == "B"

    @pytest.mark.parametrize("commits", [True, False])
    def test_refuses_nobody_unless_it_is_committed(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        call = self.call()
        one.begin()
        one.do(insert(call))
        late = waiting(two, claim(self.call("B", of=call)), for_=one)
        one.commit() if commits else one.rollback()
        assert isinstance(late.result(PATIENCE), Refused if commits else Claimed)

    @pytest.mark.parametrize("commits", [True, False])
    def test_is_waited_for_inside_a_transaction_as_well(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        call = self.call()
        one.begin()
        one.do(insert(call))
        two.begin()
        late = waiting(two, claim(self.call("B", of=call)), for_=one)
        one.commit() if commits else one.rollback()
        assert isinstance(late.result(PATIENCE), Refused if commits else Claimed)
        two.commit()
        assert self.seen(call).task_id == ("A" if commits else "B")

    def test_is_gone_when_its_client_is_killed(self, one: Session, two: Session) -> None:
        call = self.call()
        one.begin()
        one.do(insert(call))
        victim = one.pid
        late = waiting(two, insert(self.call("B", of=call)), for_=one)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [victim])

        assert late.result(PATIENCE) is not None
        with pytest.raises(OperationalError):
            one.sql("SELECT 1")
        assert self.seen(call).task_id == "B"

    def test_gives_up_after_a_lock_timeout_without_harm_to_the_outer_transaction(
        self, one: Session, two: Session
    ) -> None:
        call, other = self.call(), self.call("B")
        late = self.call("B", of=call)
        one.begin()
        one.do(insert(call))

        def claim_with_a_lock_timeout(store: LedgerStore) -> None:
            with transaction.atomic(), store.connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '50ms'")
                insert(late)(store)

        two.begin()
        two.do(insert(other))
        with pytest.raises(OperationalError) as caught:
            two.do(claim_with_a_lock_timeout)
        assert code_of(caught.value) == "55P03"
        two.commit()
        one.commit()
        assert (self.seen(call).task_id, self.seen(other).task_id) == ("A", "B")


class TestASnapshot(Stage):
    """REPEATABLE READ and SERIALIZABLE: a claim that cannot be seen is an error, never a wrong answer."""

    @pytest.mark.parametrize("isolation", SNAPSHOTS)
    def test_older_than_a_committed_claim_cannot_be_claimed_in(self, isolation: str, two: Session) -> None:
        call = self.call()
        two.begin(isolation)
        two.sql("SELECT 1")
        self.claimed(call)
        with pytest.raises(OperationalError) as caught:
            two.do(insert(self.call("B", of=call)))
        assert code_of(caught.value) == "40001"
        two.rollback()

        assert two.do(insert(self.call("B", of=call))) is None, (
            "after a new start it is an ordinary duplicate"
        )

    @pytest.mark.parametrize("isolation", SNAPSHOTS)
    def test_that_waited_for_a_claim_fails_when_it_is_committed(
        self, isolation: str, one: Session, two: Session
    ) -> None:
        call = self.call()
        one.begin()
        one.do(insert(call))
        two.begin(isolation)
        late = waiting(two, insert(self.call("B", of=call)), for_=one)
        one.commit()
        with pytest.raises(OperationalError) as caught:
            late.result(PATIENCE)
        assert code_of(caught.value) == "40001"
        two.rollback()

    @pytest.mark.parametrize("isolation", SNAPSHOTS)
    def test_that_waited_for_a_claim_gets_the_key_when_it_is_rolled_back(
        self, isolation: str, one: Session, two: Session
    ) -> None:
        call = self.call()
        one.begin()
        one.do(insert(call))
        two.begin(isolation)
        late = waiting(two, insert(self.call("B", of=call)), for_=one)
        one.rollback()
        assert late.result(PATIENCE) is not None
        two.commit()
        assert self.seen(call).task_id == "B"

    @pytest.mark.parametrize("isolation", SNAPSHOTS)
    def test_cannot_take_over_what_changed_since(self, isolation: str, two: Session) -> None:
        held = self.claimed()
        with shifted(LEASE + 1):
            seen = self.seen(held.call)
            two.begin(isolation)
            two.sql("SELECT 1")
            self.retry(held)
            with pytest.raises(OperationalError) as caught:
                two.do(take_over(held.call, seen))
        assert code_of(caught.value) == "40001"
        two.rollback()
        assert self.seen(held.call).owner is None


class TestAClaimInATransaction(Stage):
    def test_is_refused_at_once_when_the_transaction_has_the_key_already(self) -> None:
        call = self.call()
        with transaction.atomic():
            assert self.store().claim_new(call, owner="w:1:first", lease=LEASE) is not None
            assert self.store().claim_new(call, owner="w:9:second", lease=LEASE) is None
        assert self.seen(call).owner == "w:1:first"

    def test_that_is_refused_raises_nothing_and_leaves_the_transaction_whole(self) -> None:
        taken, free = self.claimed().call, self.call()
        with transaction.atomic():
            assert self.store().claim_new(taken, owner="w:9:second", lease=LEASE) is None
            assert self.store().claim_new(free, owner="w:9:second", lease=LEASE) is not None
        assert self.seen(free).owner == "w:9:second"

    def test_is_gone_with_the_transaction(self) -> None:
        call = self.call()
        with transaction.atomic():
            self.claimed(call)
            transaction.set_rollback(True)
        assert self.columns(call) is None

    def test_crossed_with_another_loses_one_of_the_two_and_no_key(self, one: Session, two: Session) -> None:
        """Only claims inside transactions can deadlock: they hold what they have claimed."""
        left, right = self.call(), self.call()
        one.begin()
        two.begin()
        one.do(insert(left))
        two.do(insert(self.call("B", of=right)))
        second = {
            "A": waiting(one, insert(right), for_=two),
            "B": two.start(insert(self.call("B", of=left))),
        }
        wait(second.values(), timeout=PATIENCE, return_when="FIRST_EXCEPTION")
        loser, winner = ("A", "B") if second["A"].done() and second["A"].exception() else ("B", "A")
        assert code_of(second[loser].exception(PATIENCE)) == "40P01"
        {"A": one, "B": two}[loser].rollback()
        assert second[winner].result(PATIENCE) is not None
        {"A": one, "B": two}[winner].commit()
        assert (self.seen(left).task_id, self.seen(right).task_id) == (winner, winner)
