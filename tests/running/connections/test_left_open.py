"""A transaction that a body leaves open: never a success that is none, and nobody's who comes after it."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
from celery.contrib.django.task import DjangoTask
from celery.exceptions import Ignore
from django.db import connections

from django_idempotent_tasks import OuterTransaction, TransactionLeftOpen
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.session import Session
from django_idempotent_tasks.running.leftovers import let_go
from django_idempotent_tasks.states import State
from tests.running.connections.acts import (
    Act,
    _sound,  # noqa: F401  a fixture of every test here
    begin,
    by_hand,
    each_act,
    enter_a_block,
)
from tests.sample.models import Effect
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


def leaving(till: Till, shop: Counter, act: Act, *, at: str = "", then: Any = None, **options: Any) -> Any:
    """A task that writes in a transaction which it does not end, and returns or raises."""

    @till.guarded(**{"mode": "leased", **options})
    def sell(self: Any, order: int) -> int:  # noqa: ARG001
        act(at or shop.alias)
        Effect.objects.using(at or shop.alias).create(key="left", attempt=0, token=0, note="left")
        if then is not None:
            raise then
        return order

    return sell


@each_act
def test_a_body_that_leaves_a_transaction_open_has_failed(till: Till, shop: Counter, act: Act) -> None:
    task = leaving(till, shop, act)
    error = till.deliver(task, 7).error
    assert isinstance(error, TransactionLeftOpen)
    assert repr(shop.alias) in str(error)
    assert "transaction.atomic()" in str(error)
    assert (shop.state, shop.effects) == (State.FAILED, [])
    assert get_store(shop.alias).session() is Session.IDLE


def test_it_is_retried_where_the_task_says_so(till: Till, shop: Counter) -> None:
    acts: list[Act] = [begin, lambda _: None]

    def act(alias: str) -> None:
        acts.pop(0)(alias)

    task = leaving(till, shop, act, transient_errors=(TransactionLeftOpen,))
    assert till.deliver(task, 7).is_retried
    assert (shop.state, shop.effects) == (State.RETRY, [])
    assert till.deliver_sent(task).result == 7
    assert (shop.state, shop.effects) == (State.SUCCEEDED, ["left"])


@each_act
def test_an_error_of_a_body_that_leaves_a_transaction_open_stays_its_own(
    till: Till, shop: Counter, act: Act
) -> None:
    task = leaving(till, shop, act, then=ValueError("mine"))
    assert isinstance(till.deliver(task, 7).error, ValueError)
    assert (shop.state, shop.effects) == (State.FAILED, [])


def test_what_was_completed_before_stays_completed(till: Till, shop: Counter) -> None:
    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:
        with self.idempotency.complete() as done:
            shop.write(note="kept")
            done.result = order
        begin(shop.alias)
        shop.write(note="left")

    assert till.deliver(sell, 7).result == 7
    assert (shop.state, shop.effects) == (State.SUCCEEDED, ["kept"])


@by_hand
def test_complete_is_refused_where_nobody_would_commit_it(till: Till, shop: Counter, act: Act) -> None:
    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:
        act(shop.alias)
        with self.idempotency.complete() as done:
            shop.write()
            done.result = order

    assert isinstance(till.deliver(sell, 7).error, OuterTransaction)
    assert (shop.state, shop.effects) == (State.FAILED, [])
    assert isinstance(sell.apply((8,)).result, OuterTransaction)
    assert shop.effects == []


@pytest.mark.parametrize("mode", ["leased", "atomic"])
def test_who_says_by_ignore_that_the_work_is_done_has_to_have_committed_it(
    till: Till, shop: Counter, mode: str
) -> None:
    other = "sqlite" if shop.alias == "default" else "default"
    at = shop.alias if mode == "leased" else other
    task = leaving(till, shop, begin, at=at, then=Ignore(), mode=mode)
    assert isinstance(till.deliver(task, 7).error, TransactionLeftOpen)
    assert (shop.state, Counter(at).effects) == (State.FAILED, [])


def test_what_was_left_open_is_forgotten_also_while_the_database_is_away(
    alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter_a_block(alias)
    connection: Any = connections[alias]

    def fail(_: object) -> NoReturn:
        raise connection.Database.OperationalError

    monkeypatch.setattr(connection, "get_new_connection", fail)
    let_go(connection, Session.OPEN)
    assert not connection.in_atomic_block


def test_a_body_that_commits_by_itself_and_leaves_nothing_open_has_succeeded(
    till: Till, shop: Counter
) -> None:
    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> int:  # noqa: ARG001
        connections[shop.alias].set_autocommit(False)
        shop.write(note="by hand")
        connections[shop.alias].commit()
        return order

    assert till.deliver(sell, 7).result == 7
    assert (shop.state, shop.effects) == (State.SUCCEEDED, ["by hand"])


@pytest.mark.parametrize("mode", ["leased", "atomic"])
def test_a_transaction_that_is_left_open_on_another_database_is_a_failure_as_well(
    till: Till, shop: Counter, mode: str
) -> None:
    other = "sqlite" if shop.alias == "default" else "default"
    task = leaving(till, shop, begin, at=other, mode=mode)
    assert isinstance(till.deliver(task, 7).error, TransactionLeftOpen)
    assert (shop.state, Counter(other).effects) == (State.FAILED, [])


@pytest.mark.parametrize("mode", ["leased", "atomic"])
@by_hand
def test_a_claim_is_never_made_in_what_was_left_open_before(
    till: Till, shop: Counter, act: Act, mode: str
) -> None:
    act(shop.alias)
    shop.write(note="left")
    assert till.deliver(till.seller(shop, mode=mode), 7).result == {"order": 7}
    connections[shop.alias].close()
    assert (shop.state, shop.effects) == (State.SUCCEEDED, ["sold"])


@each_act
@pytest.mark.usefixtures("watching")
def test_after_a_task_that_nothing_guards_what_it_left_open_is_rolled_back_and_closed(
    till: Till, shop: Counter, act: Act, caplog: pytest.LogCaptureFixture
) -> None:
    @till.task(base=DjangoTask, shared=False, name=till.new_name())
    def plain(order: int) -> None:  # noqa: ARG001
        act(shop.alias)
        shop.write(note="left")

    till.deliver(plain, 7)
    assert get_store(shop.alias).session() is Session.IDLE
    assert not connections[shop.alias].in_atomic_block
    assert shop.effects == []
    assert f"{plain.name} ended with a transaction open" in caplog.text


def test_an_eager_body_that_leaves_a_transaction_open_has_failed(till: Till, shop: Counter) -> None:
    assert isinstance(leaving(till, shop, begin).apply((7,)).result, TransactionLeftOpen)
    assert (shop.state, shop.effects) == (State.FAILED, [])
