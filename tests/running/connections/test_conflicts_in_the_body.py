"""A body whose transaction conflicts with another one runs again, or fails with the reason."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest
from django.db import OperationalError, connections, transaction
from psycopg import IsolationLevel

from django_idempotent_tasks import PermanentError
from django_idempotent_tasks.running import conflicts
from django_idempotent_tasks.states import Reason, State
from tests.running.connections.levels import LEVELS, each_higher
from tests.sample.models import Effect
from tests.support.deliveries import ALIASES, APPS
from tests.support.failed import jobs
from tests.support.ledger.session import Session
from tests.support.till import Counter, Till
from tests.support.waiting import PATIENCE, eventually

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
]


class Wrapped(Exception):
    """What a body makes of the database's error."""


def let_through(update: Callable[[], object]) -> None:
    """Let the database's error through."""
    update()


def wrap(update: Callable[[], object]) -> None:
    """Raise an error of the task's own for it."""
    try:
        update()
    except OperationalError as error:
        raise Wrapped from error


def raise_anew(update: Callable[[], object]) -> None:
    """Raise another error while it is handled."""
    try:
        update()
    except OperationalError:
        raise Wrapped("no cause given") from None


def pass_over(update: Callable[[], object]) -> None:
    """Return as if nothing were."""
    with suppress(OperationalError):
        update()


def pass_over_and_go_on(update: Callable[[], object]) -> None:
    """Say something more, which the database refuses to do in this transaction."""
    pass_over(update)
    Effect.objects.count()


REACTIONS = [let_through, wrap, raise_anew, pass_over, pass_over_and_go_on]


def contested(
    till: Till, shop: Counter, rival: Session, reaction: Any, *, times: int = 1, **options: Any
) -> Any:
    """A task whose first runs meet a row that the rival has changed since."""
    shop.write("stock", note="0")

    @till.guarded(**options)
    def sell(self: Any, order: int) -> int:
        shop.sell(self, "sold")
        if shop.runs <= times:
            rival.sql(f"UPDATE sample_effect SET note = '{shop.runs}' WHERE key = 'stock'")  # noqa: S608
        reaction(lambda: Effect.objects.filter(key="stock").update(note="ours"))
        return order

    return sell


@each_higher
@pytest.mark.parametrize("redelivered", [False, True])
@pytest.mark.parametrize("reaction", REACTIONS, ids=lambda reaction: reaction.__name__)
def test_a_conflict_in_the_body_is_no_failure_and_the_body_runs_again(
    till: Till, isolated: Counter, rival: Session, reaction: Any, *, redelivered: bool
) -> None:
    task = contested(till, isolated, rival, reaction, max_retries=0)
    assert till.deliver(task, 7, redelivered=redelivered).is_ignored
    assert (isolated.state in {None, State.RETRY}, isolated.effects) == (True, ["1"])
    assert till.deliver_sent(task).result == 7
    assert (isolated.state, isolated.effects) == (State.SUCCEEDED, ["ours", "sold"])
    assert (isolated.row.crashes, jobs(isolated)) == (0, [])


@each_higher
def test_a_body_that_conflicts_each_time_is_retried_by_its_policy_and_fails_at_last(
    till: Till, isolated: Counter, rival: Session
) -> None:
    task = contested(till, isolated, rival, let_through, times=1000, max_retries=1)
    assert till.deliver(task, 7).is_ignored
    for _ in range(conflicts.LIMIT - 1):
        assert till.deliver_sent(task).is_ignored
    assert till.deliver_sent(task).is_retried
    assert isolated.state is State.RETRY
    error = till.deliver_sent(task).error
    assert isinstance(error, OperationalError)
    assert "could not serialize" in str(error)
    assert (isolated.state, isolated.row.reason) == (State.FAILED, Reason.RETRIES_USED_UP)
    assert (isolated.runs, till.sent, isolated.row.crashes) == (conflicts.LIMIT + 2, [], 0)


@each_higher
def test_what_a_body_itself_says_of_its_conflict_is_what_becomes_of_it(
    till: Till, isolated: Counter, rival: Session
) -> None:
    def give_up(update: Callable[[], object]) -> None:
        try:
            update()
        except OperationalError as error:
            raise PermanentError("sold out") from error

    assert isinstance(till.deliver(contested(till, isolated, rival, give_up), 7).error, PermanentError)
    assert (isolated.state, isolated.row.reason) == (State.FAILED, Reason.PERMANENT)


@each_higher
def test_a_conflict_is_retried_where_the_work_of_a_leased_body_has_begun(
    till: Till, isolated: Counter, rival: Session
) -> None:
    isolated.write("stock")

    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:
        with self.idempotency.complete() as done:
            isolated.sell(self, "sold")
            if isolated.runs == 1:
                rival.sql("UPDATE sample_effect SET note = 'theirs' WHERE key = 'stock'")
            Effect.objects.filter(key="stock").update(note="ours")
            done.result = order

    assert till.deliver(sell, 7).is_retried
    assert (isolated.state, isolated.effects) == (State.RETRY, ["theirs"])
    assert till.deliver_sent(sell).result == 7
    assert (isolated.state, isolated.effects) == (State.SUCCEEDED, ["ours", "sold"])


@pytest.mark.parametrize("isolated", LEVELS[:1], indirect=True, ids=["READ_COMMITTED"])
def test_the_victim_of_a_deadlock_runs_again(till: Till, isolated: Counter, rival: Session) -> None:
    for name in ("left", "right"):
        isolated.write(name)
    others: list[Future[object]] = []

    def change(name: str) -> str:
        return f"UPDATE sample_effect SET note = note || '{{}}' WHERE key = '{name}'"  # noqa: S608

    @till.guarded(max_retries=0)
    def sell(self: Any, order: int) -> int:
        isolated.sell(self, "sold")
        with connections["default"].cursor() as cursor:
            cursor.execute("SET LOCAL deadlock_timeout = 10")  # the rival's stays at a second
            cursor.execute(change("left").format("ours"))
            if isolated.runs == 1:
                rival.begin()
                rival.sql(change("right").format("theirs"))
                us = connections["default"].connection.info.backend_pid
                pid = rival.pid
                statement = change("left").format("theirs")
                others.append(rival.start(lambda store: store._count(statement, {})))  # type: ignore[attr-defined]
                _wait_until_blocked(pid, by=us)
            cursor.execute(change("right").format("ours"))
        return order

    assert till.deliver(sell, 7).is_ignored
    others[0].result(PATIENCE)
    rival.commit()
    assert till.deliver_sent(sell).result == 7
    assert (isolated.state, isolated.effects) == (State.SUCCEEDED, ["theirsours", "theirsours", "sold"])


def _wait_until_blocked(pid: int, *, by: int) -> None:
    """As seen from a connection of its own: this one is in its transaction."""
    watcher = Session("default")
    try:
        eventually(lambda: watcher.sql(f"SELECT {by} = ANY (pg_blocking_pids({pid}))"), "the rival waits")
    finally:
        watcher.close()


@pytest.mark.parametrize("isolated", LEVELS[1:2], indirect=True, ids=["REPEATABLE_READ"])
def test_a_conflict_that_a_savepoint_takes_back_is_the_bodys_own(
    till: Till, isolated: Counter, rival: Session
) -> None:
    def behind_a_savepoint(update: Callable[[], object]) -> None:
        with suppress(OperationalError), transaction.atomic():
            update()

    assert till.deliver(contested(till, isolated, rival, behind_a_savepoint), 7).result == 7
    assert (isolated.state, isolated.effects) == (State.SUCCEEDED, ["1", "sold"])


@pytest.mark.parametrize("isolated", [IsolationLevel.SERIALIZABLE], indirect=True, ids=["SERIALIZABLE"])
@pytest.mark.parametrize("redelivered", [False, True])
def test_a_conflict_in_the_commit_is_no_crash_and_the_message_comes_back(
    till: Till, isolated: Counter, rival: Session, *, redelivered: bool
) -> None:
    @till.guarded()
    def sell(self: Any, order: int) -> int:  # noqa: ARG001
        seen = Effect.objects.count()
        isolated.sell(self, "ours")
        if isolated.runs == 1:
            rival.begin("SERIALIZABLE")
            rival.sql("SELECT count(*) FROM sample_effect")
            rival.sql("INSERT INTO sample_effect (key, attempt, token, note) VALUES ('r', 1, 1, 'theirs')")
            rival.commit()
        return seen

    assert till.deliver(sell, 7, redelivered=redelivered).is_ignored
    assert (isolated.effects, len(till.sent)) == (["theirs"], 1)
    assert till.deliver_sent(sell).result == 1
    assert (isolated.state, isolated.row.crashes) == (State.SUCCEEDED, 0)
    assert isolated.effects == ["theirs", "ours"]


@pytest.mark.parametrize("isolated", [IsolationLevel.SERIALIZABLE], indirect=True, ids=["SERIALIZABLE"])
def test_a_conflict_gives_the_delivered_message_back_where_the_broker_takes_no_other(
    till: Till, isolated: Counter, rival: Session
) -> None:
    task = contested(till, isolated, rival, let_through)
    till.broker_error = OSError("away")
    assert till.deliver(task, 7).is_requeued
    assert isolated.effects == ["1"]
    assert till.deliver(task, 7, redelivered=True).result == 7
    assert (isolated.state, isolated.row.crashes) == (State.SUCCEEDED, 0)
