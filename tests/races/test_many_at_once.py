"""Two senders of many calls with the same keys: one has them, the other is told so, and none deadlocks."""

from __future__ import annotations

import time
from uuid import uuid4

import pytest
from django.db import connection

from django_idempotent_tasks.exceptions import KeyReused
from django_idempotent_tasks.ledger import many
from django_idempotent_tasks.ledger.ledger import Ledger
from django_idempotent_tasks.ledger.many import Accepted, Intake
from django_idempotent_tasks.ledger.stores import locks
from django_idempotent_tasks.ledger.values import Call, Refused, Reserved, Wanted
from django_idempotent_tasks.states import State
from tests.races.staging import REPUBLISH, Stage, reserve
from tests.races.watch import Watch
from tests.support.ledger.policies import POLICY
from tests.support.ledger.session import Session, Work
from tests.support.waiting import PATIENCE, eventually

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]

COUNT = 30
#: As few that take a lock for each key, and as so many that they do not.
EITHER = pytest.mark.parametrize("limited", [1000, 3], ids=["with locks", "without locks"], indirect=True)


@pytest.fixture(autouse=True)
def limited(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr(locks, "LOCK_LIMIT", getattr(request, "param", 1000))


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()
    monkeypatch.setattr(many, "time", watch)
    return watch


def accept(calls: list[Call]) -> Work[dict[int, Accepted]]:
    wanted = [Wanted(call, 0, REPUBLISH, 0) for call in calls]
    return lambda store: Intake(Ledger(store, POLICY), wanted).accept()


def by(task_id: str, calls: list[Call]) -> list[Call]:
    return [Stage().call(task_id, of=call) for call in calls]


def is_alive(pid: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = %s)", [pid])
        return bool(cursor.fetchone()[0])


def reserved(outcomes: dict[int, Accepted]) -> int:
    return sum(isinstance(outcome, Reserved) for outcome in outcomes.values())


class TestTwoSenders(Stage):
    def calls(self) -> list[Call]:
        return [self.call() for _ in range(COUNT)]

    @EITHER
    @pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
    def test_of_the_same_keys_in_opposite_orders_wait_for_each_other_in_one_order(
        self, one: Session, two: Session, watch: Watch, commits: bool
    ) -> None:
        calls = self.calls()
        one.begin()
        two.begin()
        assert reserved(one.do(accept(calls))) == COUNT
        watch.may_go_on.clear()
        waits = two.start(accept(by("B", calls[::-1])))
        assert watch.has_napped.wait(PATIENCE)
        one.commit() if commits else one.rollback()
        watch.may_go_on.set()
        outcomes = waits.result(PATIENCE)
        assert reserved(outcomes) == (0 if commits else COUNT)
        two.commit()
        assert {self.seen(call).task_id for call in calls} == {"A" if commits else "B"}
        if commits:
            assert {each.holder for each in outcomes.values() if isinstance(each, Refused)} == {"A"}

    @EITHER
    def test_that_begin_together_never_deadlock_and_share_no_key(self, one: Session, two: Session) -> None:
        for _ in range(5):
            calls = self.calls()
            one.begin()
            two.begin()
            running = [
                (one, one.start(accept(calls))),
                (two, two.start(accept(by("B", calls[COUNT // 2 :] + calls[: COUNT // 2])))),
            ]
            eventually(lambda: any(each.done() for _, each in running), "one has them all")  # noqa: B023
            made = 0
            for session, future in sorted(running, key=lambda each: not each[1].done()):
                made += reserved(future.result(PATIENCE))
                session.commit()
            assert made == COUNT

    @EITHER
    def test_are_refused_after_two_seconds_and_told_which_key_is_held(
        self, one: Session, two: Session, watch: Watch
    ) -> None:
        calls = sorted(self.calls(), key=lambda call: call.identity.digest, reverse=True)
        one.begin()
        one.do(reserve(self.call("B", of=calls[11])))
        two.begin()
        began = time.monotonic()
        outcomes = two.do(accept(calls))
        assert time.monotonic() - began < PATIENCE
        held = [place for place, each in outcomes.items() if isinstance(each, Refused)]
        assert held == [11]
        assert watch.naps
        one.commit()
        two.rollback()
        assert self.seen(calls[11]).task_id == "B"

    @EITHER
    def test_of_which_one_dies_before_its_commit_leave_all_to_the_other(
        self, one: Session, two: Session, watch: Watch
    ) -> None:
        calls, pid = self.calls(), one.pid
        one.begin()
        one.do(accept(calls))
        two.begin()
        watch.may_go_on.clear()
        waits = two.start(accept(by("B", calls)))
        assert watch.has_napped.wait(PATIENCE)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
        eventually(lambda: not is_alive(pid), "the first is gone")
        watch.may_go_on.set()
        assert reserved(waits.result(PATIENCE)) == COUNT
        two.commit()
        assert {self.seen(call).task_id for call in calls} == {"B"}

    def test_meet_what_single_senders_have_reserved_claimed_and_ended(self, one: Session) -> None:
        accepted, running = self.reserved(), self.claimed().call
        done, failed = self.completed().call, self.failed(self.claimed()).call
        fresh = self.call("B")
        outcomes = one.do(accept([*by("B", [accepted, running, done, failed]), fresh]))
        reasons = [each.reason for each in outcomes.values() if isinstance(each, Refused)]
        assert sorted(reasons) == ["already_completed", "in_progress", "in_progress"]
        assert isinstance(outcomes[3], Reserved)  # its retries were used up: a new call tries anew
        assert self.seen(failed).task_id == "B"
        assert isinstance(outcomes[4], Reserved)
        assert self.seen(fresh).state is State.PENDING

    def test_with_another_payload_are_told_so(self, one: Session) -> None:
        known = self.reserved(self.call(fingerprint=uuid4()))
        outcomes = one.do(accept([self.call("B", of=known, fingerprint=uuid4()), self.call()]))
        assert isinstance(outcomes[0], KeyReused)
