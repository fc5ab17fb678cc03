"""A transaction that an eager caller has begun by hand stays the caller's, with what calls write in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections
from django.dispatch import Signal

from django_idempotent_tasks import signals
from django_idempotent_tasks.ledger.stores.session import Session, session_of
from django_idempotent_tasks.states import State
from tests.running.connections.acts import (
    Act,
    _sound,  # noqa: F401  a fixture of every test here
    by_hand,
)
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


@pytest.fixture
def announced() -> Iterator[list[Signal]]:
    """The signals that a project's receivers of all of them get."""
    announced: list[Signal] = []

    def hear(signal: Signal, **_: object) -> None:
        announced.append(signal)

    every = [each for each in vars(signals).values() if isinstance(each, Signal)]
    for each in every:
        each.connect(hear)
    yield announced
    for each in every:
        each.disconnect(hear)


def end(alias: str, how: str) -> None:
    """COMMIT or ROLLBACK by hand; it fails where no transaction is open any more."""
    assert session_of(connections[alias]) is Session.OPEN, "the caller's transaction is as it was"
    with connections[alias].cursor() as cursor:
        cursor.execute(how)


@by_hand
@pytest.mark.parametrize("mode", ["leased", "atomic"])
@pytest.mark.parametrize(
    ("how", "left"), [("COMMIT", (State.SUCCEEDED, ["theirs", "sold"])), ("ROLLBACK", (None, []))]
)
def test_the_work_of_an_eager_call_ends_with_a_transaction_begun_by_hand(
    till: Till, shop: Counter, act: Act, mode: str, how: str, left: Any, announced: list[Signal]
) -> None:
    act(shop.alias)
    shop.write(note="theirs")
    assert till.seller(shop, mode=mode).apply((7,)).get() == {"order": 7}
    if mode == "leased":
        told = [signals.key_claimed, signals.attempt_started, signals.key_completed]
        assert announced == told, "nobody would report the commit"
    end(shop.alias, how)
    assert (shop.state, shop.effects) == left


@by_hand
@pytest.mark.parametrize("mode", ["leased", "atomic"])
@pytest.mark.usefixtures("announced")
def test_so_does_the_record_of_one_that_fails_and_leaves_nothing_else_behind(
    till: Till, shop: Counter, act: Act, mode: str
) -> None:
    @till.guarded(mode=mode)
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        shop.write(note="lost")
        raise ValueError(order)

    act(shop.alias)
    shop.write(note="theirs")
    assert isinstance(sell.apply((7,)).result, ValueError)
    end(shop.alias, "COMMIT")
    assert (shop.state, shop.effects) == (State.FAILED, ["theirs"])


@by_hand
@pytest.mark.usefixtures("announced")
def test_so_do_complete_and_the_steps_of_one(till: Till, shop: Counter, act: Act) -> None:
    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:
        self.idempotency.progress(1, 2)
        self.idempotency.step("write", lambda: shop.write(note="step"))
        with self.idempotency.complete() as done:
            shop.write(note="done")
            done.result = order

    act(shop.alias)
    assert sell.apply((7,)).get() == 7
    end(shop.alias, "COMMIT")
    assert (shop.state, shop.effects) == (State.SUCCEEDED, ["step", "done"])


@by_hand
@pytest.mark.parametrize("mode", ["leased", "atomic"])
def test_a_signal_that_strikes_while_an_eager_call_is_settled_does_not_end_it(
    till: Till, shop: Counter, act: Act, mode: str
) -> None:
    @till.guarded(mode=mode)
    def sell(self: Any, order: int) -> int:  # noqa: ARG001
        raise KeyboardInterrupt

    act(shop.alias)
    shop.write(note="theirs")
    with pytest.raises(KeyboardInterrupt):
        sell.apply((7,))
    end(shop.alias, "COMMIT")
    assert shop.effects == ["theirs"]
