"""A ledger that loses a key's row, or goes back in time, while the body runs: the message is given back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from celery.exceptions import Ignore, Reject
from celery.exceptions import SoftTimeLimitExceeded as Soft

from django_idempotent_tasks import PermanentError
from django_idempotent_tasks.states import State
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


def _fail(error: BaseException) -> Callable[[Any], None]:
    def end(_task: Any) -> None:
        raise error

    return end


def _retry(task: Any) -> None:
    raise task.retry(countdown=20)


def _retry_unthrown(task: Any) -> None:
    task.retry(countdown=20, throw=False)


def _complete(task: Any) -> None:
    with task.idempotency.complete():
        pass


ENDS: dict[str, Callable[[Any], object]] = {
    "returns": lambda _task: None,
    "completes": _complete,
    "fails": _fail(PermanentError("no")),
    "soft time limit": _fail(Soft()),
    "retries": _retry,
    "retries unthrown": _retry_unthrown,
    "ignores": _fail(Ignore()),
    "rejects": _fail(Reject("no", requeue=False)),
    "external": lambda task: task.idempotency.external().__enter__(),
}


def unlucky(till: Till, shop: Counter, befall: Callable[[], object], end: str, **options: Any) -> Any:
    """A task to whose row something happens in its first run, which then ends in one of the ways."""

    @till.guarded(mode="leased", max_retries=3, **options)
    def sell(task: Any, order: int) -> int:
        shop.sell(task)
        if shop.runs == 1:
            befall()
            ENDS[end](task)
        return order

    return sell


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("reserve", [False, True], ids=["sent", "reserved"])
def test_a_call_whose_row_vanished_while_it_ran_is_run_again(
    till: Till, shop: Counter, end: str, *, reserve: bool
) -> None:
    options = {"at_most_once": True} if end == "external" else {}
    task = unlucky(till, shop, shop.clear, end, reserve=reserve, **options)
    headers = {}
    if reserve:
        task.submit((7,), task_id="A")
        headers = till.sent.pop().options["headers"]
    assert till.deliver(task, 7, **headers).is_requeued
    assert (shop.state, till.sent) == (None, [])

    assert till.deliver(task, 7, redelivered=True, **headers).result == 7
    assert (shop.state, shop.runs, shop.row.attempts) == (State.SUCCEEDED, 2, 1)


@pytest.mark.parametrize(
    "columns",
    [
        {"state": State.PENDING, "message": "{}"},
        {"state": State.RETRY, "message": None},
        {"state": State.RUNNING, "message": "{}", "owner": "w:1:dead"},
    ],
    ids=["pending", "retry", "running"],
)
def test_a_call_whose_row_went_back_in_time_while_it_ran_is_run_again(
    till: Till, shop: Counter, columns: dict[str, Any]
) -> None:
    task = unlucky(till, shop, lambda: shop.put(**{"token": 0, "owner": None, **columns}), "returns")
    assert till.deliver(task, 7).is_requeued
    shop.put(open_at=shop.row.created_at)
    assert till.deliver(task, 7, redelivered=True).result == 7
    assert (shop.state, shop.runs) == (State.SUCCEEDED, 2)


def test_the_result_of_an_earlier_generation_is_not_taken_for_this_one_s(till: Till, shop: Counter) -> None:
    @till.guarded(mode="leased", retention=0)
    def sell(task: Any, order: int) -> int:  # noqa: ARG001
        shop.sell(task)
        if shop.runs == 2:
            shop.put(**earlier)
        return shop.runs

    assert till.deliver(sell, 7).result == 1
    earlier = {name: value for name, value in vars(shop.row).items() if name not in {"_state", "digest"}}
    assert till.deliver(sell, 7, id="B").is_requeued
    assert till.deliver(sell, 7, id="B", redelivered=True).result == 3
    assert (shop.state, shop.row.task_id) == (State.SUCCEEDED, "B")
