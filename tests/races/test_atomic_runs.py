"""An atomic run whose transaction is open meets senders, records, sweeps, cancels, prunes and heartbeats."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import OperationalError, connection

from django_idempotent_tasks.ledger.atomic import ANY_TOKEN, Recorded
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Answered, Call, Claim, Claimed, Refused, Reserved, Waiting
from django_idempotent_tasks.states import State
from tests.races.staging import BOTH_ENDS, LEASE, RETENTION, WINDOW, end, record, reserve, run, waiting
from tests.races.test_atomic_claimers import KINDS, Kind, Runs
from tests.races.test_first_claims import SNAPSHOTS, code_of
from tests.races.test_reservations_meet import cancel, expire, prune, revoke
from tests.races.test_settling import renew
from tests.races.test_sweeps import sweep
from tests.races.watch import Watch, watch
from tests.support.ledger.session import Session, Work
from tests.support.waiting import PATIENCE, eventually

__all__ = ["watch"]

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]


class Meeting(Runs):
    def begin_run(self, session: Session, call: Call) -> Claim:
        """A body that runs: its claim is made, its transaction open."""
        session.begin()
        outcome = session.do(run(call))
        assert isinstance(outcome, Claimed)
        return outcome.claim


class TestASender(Meeting):
    @BOTH_ENDS
    def test_that_came_first_keeps_no_run_waiting(self, one: Session, two: Session, *, commits: bool) -> None:
        call = self.call()
        one.begin()
        assert isinstance(one.do(reserve(call)), Reserved)
        for rival in (call, self.call("B", of=call)):
            two.begin()
            assert isinstance(two.do(run(rival)), Waiting)
            two.commit()
        end(one, commits=commits)
        two.begin()
        assert isinstance(two.do(run(self.call("B", of=call))), Refused if commits else Claimed)
        two.rollback()
        self.begin_run(two, call)
        two.commit()
        assert self.seen(call).state is State.SUCCEEDED

    @BOTH_ENDS
    def test_of_a_finished_key_that_came_first_keeps_no_run_waiting(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        call = self.call("Z", of=self.completed(retention=0).call)
        one.begin()
        assert isinstance(one.do(reserve(call)), Reserved)
        for rival in (call, self.call("B", of=call)):
            two.begin()
            assert isinstance(two.do(run(rival)), Waiting)
            two.rollback()
        end(one, commits=commits)
        two.begin()
        outcome = two.do(run(self.call("B", of=call)))
        assert isinstance(outcome, Refused if commits else Claimed)
        two.rollback()

    @BOTH_ENDS
    def test_of_a_new_key_waits_for_a_run_no_longer_than_for_another_sender(
        self, one: Session, two: Session, watch: Watch, *, commits: bool
    ) -> None:
        call = self.call()
        self.begin_run(one, call)
        other = self.call("B", of=call)
        outcome = two.do(reserve(other))
        assert isinstance(outcome, Refused)
        assert outcome.holder == ""
        assert 1.9 < sum(watch.naps) < 2.2
        end(one, commits=commits)
        assert isinstance(two.do(reserve(other)), Refused if commits else Reserved)

    @BOTH_ENDS
    def test_of_a_key_that_waits_hears_at_once_who_has_it(
        self, one: Session, two: Session, watch: Watch, *, commits: bool
    ) -> None:
        for call in (self.pending(), self.due()):
            self.begin_run(one, call)
            outcome = two.do(reserve(self.call("B", of=call)))
            assert isinstance(outcome, Refused)
            assert (outcome.holder, watch.naps) == ("0", [])
            end(one, commits=commits)

    @BOTH_ENDS
    def test_of_a_finished_key_waits_for_a_run_no_longer_than_for_another_sender(
        self, one: Session, two: Session, watch: Watch, *, commits: bool
    ) -> None:
        call = self.finished()
        self.begin_run(one, call)
        other = self.call("B", of=call)
        assert isinstance(two.do(reserve(other)), Refused)
        assert 1.9 < sum(watch.naps) < 2.2
        end(one, commits=commits)
        assert isinstance(two.do(reserve(other)), Refused if commits else Reserved)

    def test_crossed_with_another_inside_two_runs_ends_in_two_refusals_and_no_deadlock(
        self, one: Session, two: Session, watch: Watch
    ) -> None:
        left, right = self.call("A"), self.call("B")
        self.begin_run(one, left)
        self.begin_run(two, right)
        for session in (one, two):
            session.sql("SET LOCAL deadlock_timeout = '1ms'")
        for session, other in ((one, self.call("A", of=right)), (two, self.call("B", of=left))):
            assert isinstance(session.do(reserve(other)), Refused)
            assert isinstance(session.do(run(other)), Waiting)
        one.commit()
        two.commit()
        assert watch.naps
        assert (self.seen(left).task_id, self.seen(right).task_id) == ("A", "B")

    def test_inside_a_run_loses_its_reservation_with_it(self, one: Session, two: Session) -> None:
        call, child = self.call(), self.call("child")
        self.begin_run(one, call)
        assert isinstance(one.do(reserve(child)), Reserved)
        two.begin()
        assert isinstance(two.do(run(child)), Waiting)
        two.commit()
        one.rollback()
        assert (self.columns(call), self.columns(child)) == (None, None)
        assert isinstance(two.do(reserve(child)), Reserved)


class TestARecord(Meeting):
    """What a parent writes about a run that left nothing."""

    @KINDS
    @BOTH_ENDS
    def test_hears_that_another_copy_has_the_key(
        self, one: Session, two: Session, kind: Kind, *, commits: bool
    ) -> None:
        call = kind(self)
        before = self.store().read(call.identity.digest, task_id=call.task_id)
        seen = before.token if before else 0
        self.begin_run(one, call)
        for token in (seen, ANY_TOKEN):
            assert two.do(record(call, seen=token)) is Recorded.HELD
        end(one, commits=commits)
        for token in (seen, ANY_TOKEN):
            if commits:
                with self.untouched(call):
                    assert two.do(record(call, seen=token)) is Recorded.MOVED
        if not commits:
            assert two.do(record(call, seen=seen)) is Recorded.DONE
            assert self.seen(call).state is State.RETRY

    @KINDS
    def test_never_overwrites_a_success_that_came_meanwhile(
        self, one: Session, two: Session, kind: Kind
    ) -> None:
        """The row was read before, and the success is committed between that and the record."""
        call = kind(self)
        entry = self.store().read(call.identity.digest, task_id=call.task_id)
        self.begin_run(one, call)
        one.commit()
        with self.untouched(call):
            assert two.do(record(call, seen=entry.token if entry else 0)) is Recorded.MOVED
            assert two.do(record(call, seen=ANY_TOKEN)) is Recorded.MOVED
            assert two.do(record(self.call("B", of=call), seen=ANY_TOKEN)) is Recorded.MOVED

    def test_keeps_no_run_and_no_other_record_waiting(self, one: Session, two: Session) -> None:
        call = self.call()
        one.begin()
        assert one.do(record(call)) is Recorded.DONE
        two.begin()
        assert isinstance(two.do(run(call)), Waiting)
        assert two.do(record(call)) is Recorded.HELD
        two.commit()
        one.commit()
        self.begin_run(two, call)
        two.commit()
        assert (self.seen(call).state, self.seen(call).crashes) == (State.SUCCEEDED, 1)

    @KINDS
    def test_is_written_once_the_connection_of_the_run_is_gone(
        self, one: Session, two: Session, kind: Kind
    ) -> None:
        call = kind(self)
        victim = one.pid
        self.begin_run(one, call)
        with self.untouched(call), connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [victim])
        eventually(
            lambda: two.do(record(call, seen=ANY_TOKEN)) is Recorded.DONE, "the key is free", every=0.005
        )
        with pytest.raises(OperationalError):
            one.sql("SELECT 1")
        assert self.seen(call).state is State.RETRY


class TestOthers(Meeting):
    """Whoever looks after keys passes over one that an atomic run has."""

    @KINDS
    @BOTH_ENDS
    def test_neither_wait_for_a_run_nor_change_its_key(
        self, one: Session, two: Session, kind: Kind, *, commits: bool
    ) -> None:
        call = kind(self)
        with shifted(RETENTION + WINDOW):
            claim = self.begin_run(one, call)
            with self.untouched(call):
                works: list[Callable[[], Work[object]]] = [
                    sweep,
                    prune,
                    lambda: cancel(call),
                    lambda: revoke(call),
                    lambda: expire(call),
                ]
                for work in works:
                    assert not two.do(work())
            end(one, commits=commits)
        columns = self.columns(call)
        assert (columns is not None and columns["owner"] == claim.owner) is commits

    @pytest.mark.parametrize("kind", [Runs.pending, Runs.due, Runs.dead])
    def test_find_the_key_again_after_a_rollback(self, one: Session, two: Session, kind: Kind) -> None:
        call = kind(self)
        with shifted(RETENTION + WINDOW):
            self.begin_run(one, call)
            assert two.do(sweep()) == []
            one.rollback()
            assert [row.digest for row in two.do(sweep())] == [call.identity.digest]
        assert two.do(cancel(call)) is True
        self.begin_another(two, call)

    def begin_another(self, session: Session, call: Call) -> None:
        """The call itself is answered, and another one may run."""
        session.begin()
        assert isinstance(session.do(run(call)), Answered)
        assert isinstance(session.do(run(self.call("B", of=call))), Claimed)
        session.commit()

    @BOTH_ENDS
    def test_renew_no_lease_that_a_run_takes_over(self, one: Session, two: Session, *, commits: bool) -> None:
        held = self.claimed()
        with shifted(LEASE + 1):
            self.begin_run(one, held.call)
        assert two.do(renew(held)) == set()
        end(one, commits=commits)
        assert two.do(renew(held)) == (set() if commits else {held.digest})

    @BOTH_ENDS
    def test_who_remove_a_finished_key_leave_it_to_the_run_that_has_waited_for_them(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        """One statement of a prune, and no transaction of a task or a sender, is worth a wait."""
        call = self.finished()
        with shifted(WINDOW + 1):
            one.begin()
            assert one.do(prune()) == 1
            two.begin()
            late = waiting(two, run(call), for_=one)
            end(one, commits=commits)
            assert isinstance(late.result(PATIENCE), Claimed)
            two.commit()
        entry = self.seen(call)
        assert (entry.task_id, entry.generation) == ("0", 1 if commits else 2)


class TestASnapshot(Meeting):
    @pytest.mark.parametrize("isolation", SNAPSHOTS)
    def test_older_than_a_committed_run_is_an_error_and_never_a_second_run(
        self, isolation: str, one: Session, two: Session
    ) -> None:
        for kind in (Runs.new, Runs.pending, Runs.due, Runs.finished):
            call = kind(self)
            two.begin(isolation)
            two.sql("SELECT 1")
            self.begin_run(one, call)
            one.commit()
            with pytest.raises(OperationalError) as caught:
                two.do(run(call))
            assert code_of(caught.value) == "40001"
            two.rollback()
            two.begin(isolation)
            assert isinstance(two.do(run(call)), Answered)
            two.commit()
