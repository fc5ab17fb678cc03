"""Atomic bodies on MariaDB or MySQL whose transaction ends before they do: never a success that is none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import pytest
from django.db import OperationalError, connections
from django.db.transaction import TransactionManagementError

from django_idempotent_tasks.exceptions import ConfigurationError
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.mysql import MysqlStore
from django_idempotent_tasks.messages.header import to_header
from django_idempotent_tasks.messages.message import CONFLICTS, HEADER
from django_idempotent_tasks.running import conflicts
from django_idempotent_tasks.states import State
from tests.races.mysql import wait_until_blocked
from tests.sample.models import Effect
from tests.services.mysql.server import ALIAS, mark
from tests.support.ledger.session import Session
from tests.support.till import Counter, Till
from tests.support.waiting import PATIENCE

pytestmark = mark

Act = Callable[[Counter], object]

HEAVY = "INSERT INTO sample_effect (`key`, attempt, token, note) SELECT 'h', 0, 0, 'h' FROM seq_1_to_50"


def sql(*statements: str) -> None:
    """Say it to the database by Django's cursor."""
    with connections[ALIAS].cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def acting(till: Till, act: Act, **options: Any) -> Any:
    """A task that writes an effect, does something to its transaction, and returns as if nothing were."""

    @till.guarded(**options)
    def sell(self: Any, order: int) -> dict[str, int]:
        shop = Counter(ALIAS)
        shop.sell(self, "before")
        act(shop)
        return {"order": order}

    return sell


class Deadlock:
    """Two rows, and a rival who locks them in the other order."""

    def __init__(self) -> None:
        rows = [Effect.objects.using(ALIAS).create(key=name, attempt=0, token=0, note="row") for name in "lr"]
        lock = "SELECT id FROM sample_effect WHERE id = {} FOR UPDATE"
        self.left, self.right = (lock.format(row.pk) for row in rows)
        self.rival, self.watcher = Session(ALIAS), Session(ALIAS)

    def strike(self, _shop: Counter) -> None:
        """Become the victim of a deadlock, which rolls the whole transaction back."""
        self.rival.begin()
        self.rival.sql(HEAVY)  # the lighter one is the victim
        self.rival.sql(self.right)
        thread = self.rival.sql("SELECT connection_id()")
        sql(self.left)
        waiting = self.rival.start(lambda store: store._rows(self.left, {}))  # type: ignore[attr-defined]
        wait_until_blocked(self.watcher, thread)
        try:
            sql(self.right)
        finally:
            waiting.result(PATIENCE)
            self.rival.rollback()

    def swallow(self, shop: Counter) -> None:
        """The same, and pass it over."""
        with suppress(OperationalError):
            self.strike(shop)
            pytest.fail("somebody else was the victim")

    def close(self) -> None:
        """Let the connections go."""
        self.rival.close()
        self.watcher.close()


@pytest.mark.parametrize("how", ["and goes on", "and returns", "and raises", "let through"])
def test_a_deadlock_in_a_body_commits_nothing_and_the_body_runs_again(
    till: Till, shop: Counter, how: str
) -> None:
    with closing(Deadlock()) as deadlock:

        def be_struck(shop: Counter) -> None:
            if how == "let through":
                deadlock.strike(shop)
            deadlock.swallow(shop)
            if how == "and goes on":
                shop.write(note="after")
            if how == "and raises":
                raise ValueError(how)

        acts: list[Act] = [be_struck, lambda shop: shop.write(note="again")]

        def act(shop: Counter) -> None:
            acts.pop(0)(shop)

        task = acting(till, act, max_retries=0)
        assert till.deliver(task, 7).is_ignored
        assert (shop.state, shop.effects) == (None, ["row", "row"])
        assert till.deliver_sent(task).result == {"order": 7}
    assert (shop.state, shop.row.crashes) == (State.SUCCEEDED, 0)
    assert shop.effects == ["row", "row", "before", "again"]


@pytest.mark.parametrize("how", ["goes_on", "returns"])
def test_a_deadlock_that_a_body_swallows_each_time_is_a_failure_at_last(
    till: Till, shop: Counter, how: str
) -> None:
    with closing(Deadlock()) as deadlock:

        def act(shop: Counter) -> None:
            deadlock.swallow(shop)
            if how == "goes_on":
                shop.write(note="after")

        task = acting(till, act, max_retries=0)
        header = to_header(task.idempotency_identity((7,)), task_name=task.name, task_id="A")
        end = till.deliver(task, 7, headers={HEADER: header | {CONFLICTS: conflicts.LIMIT}})
    assert isinstance(end.error, TransactionManagementError)
    assert (shop.state, shop.effects, till.sent) == (State.FAILED, ["row", "row"], [])


def test_a_deadlock_that_a_body_lets_through_is_an_error_like_others(till: Till, shop: Counter) -> None:
    with closing(Deadlock()) as deadlock:
        acts: list[Act] = [deadlock.strike, lambda shop: shop.write(note="after")]

        def act(shop: Counter) -> None:
            acts.pop(0)(shop)

        task = acting(till, act, autoretry_for=(OperationalError,), max_retries=1)
        assert till.deliver(task, 7).is_retried
        assert (shop.state, shop.effects) == (State.RETRY, ["row", "row"])
        assert till.deliver_sent(task).result == {"order": 7}
    assert (shop.state, shop.effects) == (State.SUCCEEDED, ["row", "row", "before", "after"])


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable", "read uncommitted", None])
def test_another_isolation_than_read_committed_is_refused_by_name(
    isolation: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**connections[ALIAS].settings_dict["OPTIONS"], "isolation_level": isolation}
    monkeypatch.setitem(connections[ALIAS].settings_dict, "OPTIONS", options)
    with pytest.raises(ConfigurationError, match=rf"needs 'read committed'.*'mysql'.*{isolation!r}"):
        get_store(ALIAS)


@pytest.mark.parametrize("isolation", ["read committed", "READ COMMITTED"])
def test_read_committed_may_be_asked_for(isolation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {**connections[ALIAS].settings_dict["OPTIONS"], "isolation_level": isolation}
    monkeypatch.setitem(connections[ALIAS].settings_dict, "OPTIONS", options)
    get_store(ALIAS)


def test_a_side_connection_keeps_the_commands_of_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {**connections[ALIAS].settings_dict["OPTIONS"], "init_command": "SET @mark = 7"}
    monkeypatch.setitem(connections[ALIAS].settings_dict, "OPTIONS", options)
    with get_store(ALIAS).side_connection() as side, side.connection.cursor() as cursor:
        cursor.execute("SELECT @mark, @@innodb_lock_wait_timeout, @@session.tx_isolation")
        assert cursor.fetchone() == (7, 1, "READ-COMMITTED")


@pytest.mark.parametrize("ends", ["fails", "asks for a retry"])
def test_a_commit_inside_a_body_that_fails_is_no_success_where_the_server_tells_nothing(
    till: Till, shop: Counter, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    monkeypatch.setattr(MysqlStore, "_is_mariadb", False)  # MySQL's way of going about it

    @till.guarded(max_retries=1)
    def sell(self: Any, order: int) -> None:
        shop.sell(self)
        sql("COMMIT")
        if ends == "fails":
            raise ValueError(order)
        raise self.retry()

    till.deliver(sell, 7)
    assert shop.state is (State.FAILED if ends == "fails" else State.RETRY)


@pytest.mark.parametrize("word", ["ROLLBACK", "COMMIT"])
def test_a_body_that_ends_the_transaction_of_complete_completes_nothing(
    till: Till, shop: Counter, word: str
) -> None:
    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> int:
        with self.idempotency.complete():
            shop.write(note="before")
            sql("SAVEPOINT own", "ROLLBACK TO SAVEPOINT own", word)
        return order

    assert "has sent COMMIT or ROLLBACK" in str(till.deliver(sell, 7).error)
    assert (shop.state, shop.effects) == (State.FAILED, ["before"] if word == "COMMIT" else [])
