"""What is to happen after the commit happens after it, and never instead of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest
from django.db import transaction
from django.dispatch import Signal

from django_idempotent_tasks import signals
from django_idempotent_tasks.states import State
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


@contextmanager
def heard(*names: str) -> Iterator[list[str]]:
    """The signals that are sent meanwhile; each must find the open transaction over."""
    told: list[str] = []
    receivers: list[tuple[Signal, Any]] = []
    for name in names:

        def receive(name: str = name, **_: Any) -> None:
            told.append(name)

        receivers.append((getattr(signals, name), receive))
    for signal, receiver in receivers:
        signal.connect(receiver, weak=False)
    try:
        yield told
    finally:
        for signal, receiver in receivers:
            signal.disconnect(receiver)


ALL = ("key_claimed", "key_completed", "key_failed", "key_taken_over", "duplicate_detected")


def fail() -> NoReturn:
    """What a broken hook does."""
    raise ValueError("a hook")


def hooked(till: Till, shop: Counter, *hooks: Any, error: Exception | None = None, **options: Any) -> Any:
    """A task with hooks of its own."""

    @till.guarded(**options)
    def sell(self: Any, order: int) -> int:
        shop.sell(self)
        for hook in hooks:
            transaction.on_commit(hook, using=shop.alias)
        if error is not None:
            raise error
        return order

    return sell


def test_hooks_of_a_body_run_after_the_commit_and_in_order(till: Till, shop: Counter) -> None:
    seen: list[Any] = []
    task = hooked(till, shop, lambda: seen.append((shop.state, len(shop.effects))), lambda: seen.append(2))
    assert till.deliver(task, 7).result == 7
    assert seen == [(State.SUCCEEDED, 1), 2]


def test_hooks_of_a_body_that_fails_do_not_run(till: Till, shop: Counter) -> None:
    seen: list[int] = []
    till.deliver(hooked(till, shop, lambda: seen.append(1), error=ValueError("no")), 7)
    assert (seen, shop.state) == ([], State.FAILED)


@pytest.mark.parametrize("redelivered", [False, True])
def test_a_hook_that_fails_does_not_change_the_outcome(
    till: Till, shop: Counter, *, redelivered: bool
) -> None:
    with heard(*ALL) as told:
        end = till.deliver(hooked(till, shop, fail), 7, redelivered=redelivered)
    assert (end.result, shop.state, len(shop.effects)) == (7, State.SUCCEEDED, 1)
    assert (shop.row.result, shop.row.attempts - redelivered) == ("7", 1)
    assert told == ["key_taken_over" if redelivered else "key_claimed", "key_completed"]


def test_signals_are_sent_once_and_after_the_commit(till: Till, shop: Counter) -> None:
    states: list[State | None] = []

    def look(**_: Any) -> None:
        states.append(shop.state)

    signals.key_claimed.connect(look)
    signals.key_completed.connect(look)
    try:
        with heard(*ALL) as told:
            task = till.seller(shop)
            till.deliver(task, 7)
            till.deliver(task, 7)
            till.deliver(task, 7, id="B")
    finally:
        signals.key_claimed.disconnect(look)
        signals.key_completed.disconnect(look)
    assert told == ["key_claimed", "key_completed", "duplicate_detected"]
    assert states == [State.SUCCEEDED] * 2


def test_a_failure_is_told_once_and_its_claim_never(till: Till, shop: Counter) -> None:
    with heard(*ALL) as told:
        till.deliver(hooked(till, shop, error=ValueError("no")), 7)
    assert told == ["key_failed"]


def test_a_receiver_that_fails_changes_nothing(till: Till, shop: Counter) -> None:
    def receive(**_: Any) -> NoReturn:
        fail()

    for signal in (signals.key_claimed, signals.key_completed):
        signal.connect(receive)
    try:
        assert till.deliver(till.seller(shop), 7).result == {"order": 7}
    finally:
        for signal in (signals.key_claimed, signals.key_completed):
            signal.disconnect(receive)
    assert shop.state == State.SUCCEEDED


@pytest.mark.parametrize(
    ("name", "error"),
    [("key_completed", None), ("key_failed", ValueError("no"))],
    ids=["completed", "failed"],
)
def test_a_receiver_may_submit_the_same_key_again(
    till: Till, shop: Counter, name: str, error: Exception | None
) -> None:
    task = hooked(till, shop, error=error, retention=0)
    made: list[bool] = []

    def again(**_: Any) -> None:
        made.append(task.submit((7,)).created)

    signal: Signal = getattr(signals, name)
    signal.connect(again)
    try:
        till.deliver(task, 7)
    finally:
        signal.disconnect(again)
    assert (made, shop.state, len(till.sent)) == ([True], State.PENDING, 1)
    till.deliver_sent(task)
    assert (shop.runs, shop.state) == (2, State.FAILED if error else State.SUCCEEDED)


def test_what_a_body_sends_on_commit_is_sent_after_it_and_the_rest_at_once(
    till: Till, postgresql: Counter
) -> None:
    other = till.seller(postgresql)

    @till.guarded()
    def sell(self: Any, order: int, *, fails: bool) -> None:  # noqa: ARG001
        other.delay(order)
        other.apply_async_on_commit((order,))
        assert len(till.sent) == 1
        if fails:
            raise ValueError("no")

    till.deliver(sell, 7, kwargs={"fails": True})
    assert len(till.sent) == 1
    till.sent.clear()
    till.deliver(sell, 7, id="B", kwargs={"fails": False})
    assert len(till.sent) == 2
