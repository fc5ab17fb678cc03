"""A message names one key, whatever others do to its headers and whatever a body says of its retry."""

from __future__ import annotations

from typing import Any

import pytest

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.sweep import sweep_once
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

each_mode = pytest.mark.parametrize("mode", ["leased", "atomic"])

#: What others make of a call's headers: ``{}`` stands for those of a tracer.
TRACED = {"sentry-trace": "0-0", "baggage": "x=1"}


def nested(headers: dict[str, Any]) -> dict[str, Any]:
    """As sentry-sdk up to 2.53 and ddtrace leave them: theirs again inside."""
    return {**headers, **TRACED, "headers": dict(TRACED)}


def swallowed(headers: dict[str, Any]) -> dict[str, Any]:
    """All of them in one that is called ``headers``, as of a call with ``headers={"headers": ...}``."""
    return {"headers": {**TRACED, "headers": dict(headers)}}


each_way = pytest.mark.parametrize("others", [nested, swallowed])


# -- headers in headers --


@each_mode
@each_way
def test_a_call_with_a_key_of_its_own_is_not_taken_for_another(
    till: Till, shop: Counter, mode: str, others: Any
) -> None:
    task = till.seller(shop, mode=mode)
    for number in (1, 2):
        task.apply_async((7,), task_id=f"id-{number}", idempotency_key=f"k-{number}", scope=f"t-{number}")
        sent = till.sent.pop()
        end = till.deliver(task, 7, id=f"id-{number}", **others(sent.options["headers"]))
        assert end.result == {"order": 7}
    rows = IdempotencyKey.objects.using(shop.alias).order_by("scope")
    assert [(row.scope, row.key_text) for row in rows] == [("t-1", "k-1"), ("t-2", "k-2")]
    assert shop.runs == 2


@each_mode
@each_way
def test_a_reserved_call_is_the_one_that_was_reserved(
    till: Till, shop: Counter, mode: str, others: Any
) -> None:
    task = till.seller(shop, mode=mode)
    task.submit((7,), task_id="A", idempotency_key="evt-1")
    headers = others(till.sent.pop().options["headers"])
    assert till.deliver(task, 7, **headers).result == {"order": 7}
    assert (shop.state, shop.row.key_text, shop.runs) == (State.SUCCEEDED, "evt-1", 1)


@each_mode
@each_way
def test_the_retry_of_such_a_message_names_the_same_key(
    till: Till, shop: Counter, mode: str, others: Any
) -> None:
    @till.guarded(mode=mode, max_retries=3)
    def sell(self: Any, order: int) -> int:
        shop.sell(self)
        if not self.request.retries:
            raise self.retry(countdown=0)
        return order

    sell.apply_async((7,), task_id="A", idempotency_key="evt-1")
    assert till.deliver(sell, 7, **others(till.sent.pop().options["headers"])).is_retried
    retry = till.sent.pop()
    end = till.deliver(sell, 7, retries=1, **others(retry.options["headers"]))
    assert end.result == 7
    assert (shop.row.key_text, shop.row.attempts, shop.state) == ("evt-1", 2, State.SUCCEEDED)


def test_what_is_sent_after_a_body_has_changed_its_headers_names_the_same_key(
    till: Till, shop: Counter
) -> None:
    @till.guarded(mode="leased", max_retries=3)
    def sell(self: Any, order: int) -> int:
        if not self.request.retries:
            self.request.headers = {"mine": 1}
            raise self.retry(countdown=0)
        return order

    sell.apply_async((7,), task_id="A", idempotency_key="evt-1")
    till.deliver(sell, 7, **swallowed(till.sent.pop().options["headers"]))
    till.sent.clear()
    with shifted(1000):
        sweep_once(till, get_store(shop.alias))
        assert till.deliver_sent(sell).result == 7
    assert (shop.row.key_text, shop.state) == ("evt-1", State.SUCCEEDED)


# -- no headers at all --


@each_mode
@pytest.mark.parametrize("redelivered", [False, True])
def test_a_reserved_call_that_comes_without_its_identity_is_known_by_its_id(
    till: Till, shop: Counter, caplog: pytest.LogCaptureFixture, mode: str, redelivered: bool
) -> None:
    task = till.seller(shop, mode=mode)
    task.submit((7,), task_id="A", idempotency_key="evt-1")
    till.sent.clear()
    assert till.deliver(task, 7, redelivered=redelivered).result == {"order": 7}
    assert till.deliver(task, 7, redelivered=redelivered).result == {"order": 7}
    assert (shop.state, shop.row.key_text, shop.runs, shop.refusals) == (State.SUCCEEDED, "evt-1", 1, [])
    assert "arrived without its identity" in caplog.text


@each_mode
def test_such_a_call_that_asks_for_a_retry_asks_under_its_own_key(
    till: Till, shop: Counter, mode: str
) -> None:
    @till.guarded(mode=mode, max_retries=3)
    def sell(self: Any, order: int) -> int:  # noqa: ARG001
        shop.sell(self)
        raise self.retry(countdown=0)

    sell.submit((7,), task_id="A", idempotency_key="evt-1")
    till.sent.clear()
    assert till.deliver(sell, 7).is_retried
    assert till.sent.pop().options["headers"]["idempotency"]["key"] == "evt-1"
    assert (shop.state, shop.row.key_text) == (State.RETRY, "evt-1")


# -- retries that say who they are --

RETRIES: dict[str, dict[str, Any]] = {
    "another id": {"task_id": "B"},
    "other headers": {"headers": {"mine": 1}},
    "no headers": {"headers": None},
    "an empty header": {"headers": {"idempotency": {}}},
    "a key": {"idempotency_key": "evt-2", "scope": "t"},
    "everything": {"task_id": "B", "headers": {"mine": 1}, "idempotency_key": "evt-2", "args": (8,)},
}


@each_mode
@pytest.mark.parametrize("options", RETRIES.values(), ids=RETRIES)
def test_a_retry_is_the_same_call_under_the_same_key_whatever_it_is_given(
    till: Till, shop: Counter, mode: str, options: dict[str, Any]
) -> None:
    @till.guarded(mode=mode, max_retries=3)
    def sell(self: Any, order: int) -> int:
        shop.sell(self)
        if not self.request.retries:
            raise self.retry(countdown=0, **options)
        return order

    sell.apply_async((7,), task_id="A", idempotency_key="evt-1")
    assert till.deliver_sent(sell).is_retried
    assert (shop.state, till.sent[0].options["task_id"]) == (State.RETRY, "A")
    given = (options.get("headers") or {}).get("mine")
    assert till.sent[0].options["headers"].get("mine") == given
    assert till.deliver_sent(sell).result == (options.get("args") or (7,))[0]
    assert (shop.state, shop.row.key_text, shop.row.scope, shop.row.attempts) == (
        State.SUCCEEDED,
        "evt-1",
        None,
        2,
    )
    assert till.sent == []


def test_a_new_call_that_a_body_makes_of_its_request_is_no_retry(till: Till, shop: Counter) -> None:
    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> int:
        shop.sell(self)
        if order == 7:
            self.signature_from_request(args=(8,), task_id="B").apply_async()
            self.apply_async((9,), task_id="C", headers=self.request.headers)
        return order

    till.deliver(sell, 7)
    assert [sent.options["task_id"] for sent in till.sent] == ["B", "C"]
    assert [till.deliver_sent(sell).result for _ in range(2)] == [8, 9]
    assert IdempotencyKey.objects.using(shop.alias).count() == 3
