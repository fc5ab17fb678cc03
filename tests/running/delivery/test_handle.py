"""What an atomic body knows of its own attempt."""

from __future__ import annotations

from typing import Any

import pytest

from django_idempotent_tasks import PermanentError, current
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.states import State
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


def test_complete_is_refused_with_what_to_do_instead(till: Till, shop: Counter) -> None:
    @till.guarded()
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        shop.sell(self)
        with self.idempotency.complete():
            shop.write(note="inside")

    error = till.deliver(sell, 7).error
    assert isinstance(error, RuntimeError)
    assert "return the result" in str(error)
    assert (shop.state, shop.effects) == (State.FAILED, [])


def test_a_body_that_goes_on_after_that_refusal_commits(till: Till, shop: Counter) -> None:
    @till.guarded()
    def sell(self: Any, order: int) -> int:
        with pytest.raises(RuntimeError):
            self.idempotency.complete()
        shop.sell(self)
        return order

    assert till.deliver(sell, 7).result == 7
    assert (shop.state, len(shop.effects)) == (State.SUCCEEDED, 1)


def test_a_body_knows_its_key_and_scope_and_so_does_current(till: Till, shop: Counter) -> None:
    seen: list[Any] = []

    @till.guarded(scope="shop")
    def sell(self: Any, order: int, shop: str) -> None:  # noqa: ARG001
        now = self.idempotency
        seen.extend([now.key, now.scope, now.token, now.attempt, now.previous_attempt_died, now.lost])
        seen.extend([current.key, current.token])

    till.deliver(sell, 7, "north")
    assert seen == ["order=7", "north", 1, 1, False, False, "order=7", 1]
    assert (shop.row.scope, shop.row.key_text) == ("north", "order=7")


def test_attempts_and_tokens_grow_and_the_downstream_key_stays(till: Till, shop: Counter) -> None:
    @till.guarded(max_retries=3)
    def sell(self: Any, order: int) -> int:
        shop.sell(self)
        if self.request.retries < 2:
            raise self.retry(countdown=0)
        return order

    till.deliver(sell, 7)
    till.deliver_sent(sell)
    assert till.deliver_sent(sell).result == 7
    assert [(start["token"], start["attempt"]) for start in shop.starts] == [(1, 1), (2, 2), (3, 3)]
    assert {start["died"] for start in shop.starts} == {False}
    assert len({start["downstream"] for start in shop.starts}) == 1
    assert (shop.row.token, shop.row.attempts) == (3, 3)


def test_new_work_after_a_failure_has_the_same_downstream_key_and_after_a_success_another(
    till: Till, shop: Counter
) -> None:
    @till.guarded(retention=60)
    def sell(self: Any, order: int) -> int:
        shop.sell(self)
        if shop.runs == 1:
            raise ValueError("no")
        return order

    till.deliver(sell, 7)
    till.deliver(sell, 7, id="B")
    with shifted(61):
        till.deliver(sell, 7, id="C")
    failed, again, anew = (start["downstream"] for start in shop.starts)
    assert failed == again != anew
    assert [start["attempt"] for start in shop.starts] == [1, 1, 1]
    assert [start["token"] for start in shop.starts] == [1, 2, 3]


def test_the_downstream_key_is_that_of_a_leased_run_of_the_same_work(till: Till, shop: Counter) -> None:
    for mode in ("leased", "atomic"):
        till.deliver(till.seller(shop, mode=mode, name="one name"), 7)
        till.tasks.unregister("one name")
        shop.clear()
    assert shop.runs == 2
    assert len({start["downstream"] for start in shop.starts}) == 1


def test_a_redelivered_start_says_that_the_one_before_it_may_have_died(till: Till, shop: Counter) -> None:
    till.deliver(till.seller(shop), 7, redelivered=True)
    assert shop.starts[0]["died"] is True
    assert shop.starts[0]["attempt"] == shop.row.attempts == 2
    assert shop.row.crashes == 0


def test_an_attempt_that_ended_well_is_no_death_for_the_next_one(till: Till, shop: Counter) -> None:
    @till.guarded(retention=0)
    def sell(self: Any, order: int, *, fails: bool) -> None:  # noqa: ARG001
        shop.sell(self)
        if fails:
            raise PermanentError("no")

    till.deliver(sell, 7, redelivered=True, kwargs={"fails": False})
    till.deliver(sell, 7, id="B", kwargs={"fails": False})
    assert [start["died"] for start in shop.starts] == [True, False]


def test_a_direct_call_in_a_body_is_a_plain_call(till: Till, shop: Counter) -> None:
    seen: list[Any] = []

    @till.guarded()
    def inner(self: Any, order: int) -> int:
        seen.append((self.idempotency.token, self.idempotency.attempt, self.idempotency.key))
        return order

    @till.guarded()
    def sell(self: Any, order: int) -> Any:
        shop.sell(self)
        return inner(order + 1)

    assert till.deliver(sell, 7).result == 8
    assert seen == [(0, 1, "order=8")]
    assert shop.row.key_text == "order=7"
