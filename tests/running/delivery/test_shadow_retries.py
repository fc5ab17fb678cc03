"""Retries in shadow mode are Celery's, and the ledger follows them."""

from __future__ import annotations

from typing import Any

import pytest

from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.states import Reason, State
from tests.running.delivery.shadowed import SHADOW
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


def test_retries_are_celerys_and_the_ledger_follows_them(till: Till, shop: Counter, told: list[str]) -> None:
    @till.guarded(autoretry_for=(ValueError,), max_retries=1, **SHADOW)
    def sell(self: Any, order: int) -> int:
        shop.sell(self)
        if self.request.retries == 0:
            raise ValueError
        return order

    sell.apply_async((7,), task_id="A")
    assert till.deliver_sent(sell).is_retried
    assert (shop.state, shop.row.message, shop.row.reason) == (State.RETRY, None, Reason.RETRY_ASKED)
    assert len(till.sent) == 1
    assert till.deliver_sent(sell).result == 7
    assert (shop.state, shop.row.attempts, told) == (State.SUCCEEDED, 2, [])
    assert [each["attempt"] for each in shop.starts] == [1, 2]


def test_a_duplicate_of_what_waits_for_its_retry_is_noted_unless_that_is_lost(
    till: Till, shop: Counter, told: list[str]
) -> None:
    @till.guarded(**SHADOW)
    def sell(self: Any, order: int) -> str:  # noqa: ARG001
        if self.request.id == "A" and self.request.retries == 0:
            raise self.retry(countdown=0)
        return str(self.request.id)

    sell.apply_async((7,), task_id="A")
    assert till.deliver_sent(sell).is_retried
    assert till.deliver(sell, 7, id="B").result == "B"
    assert (told, shop.state) == (["in_progress"], State.RETRY)
    with shifted(301):
        assert till.deliver(sell, 7, id="C").result == "C"
    assert (told, shop.state, shop.row.runner_task_id) == (["in_progress"], State.SUCCEEDED, "C")


def test_a_duplicate_is_noted_once_however_often_it_retries(
    till: Till, shop: Counter, told: list[str]
) -> None:
    @till.guarded(**SHADOW)
    def sell(self: Any, order: int) -> int:
        if self.request.id == "B" and self.request.retries < 2:
            raise self.retry(countdown=0)
        return order

    till.deliver(sell, 7)
    sell.apply_async((7,), task_id="B")
    assert [till.deliver_sent(sell).is_retried for _ in range(3)] == [True, True, False]
    assert (told, shop.row.task_id, shop.state) == (["already_completed"], "A", State.SUCCEEDED)


def test_a_retry_that_is_asked_for_without_raising_is_no_end(
    till: Till, shop: Counter, told: list[str]
) -> None:
    @till.guarded(**SHADOW)
    def sell(self: Any, order: int) -> int:
        if self.request.retries == 0:
            self.retry(throw=False)
        return order

    sell.apply_async((7,), task_id="A")
    assert till.deliver_sent(sell).result == 7
    assert shop.state is State.RETRY
    assert till.deliver_sent(sell).result == 7
    assert (shop.state, told) == (State.SUCCEEDED, [])


def test_the_key_waits_for_as_long_as_the_retry_does(till: Till, shop: Counter) -> None:
    @till.guarded(max_retries=3, **SHADOW)
    def sell(self: Any, order: int) -> int:  # noqa: ARG001  the key
        raise self.retry(countdown=120)

    sell.apply_async((7,), task_id="A")
    assert till.deliver_sent(sell).is_retried
    assert shop.row.open_at is not None
    assert shop.row.started_at is not None
    assert 110 < (shop.row.open_at - shop.row.started_at).total_seconds() < 130
