"""Arguments that do not fit a body fail the same each time: a dead letter at once, whatever is retried."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from django_idempotent_tasks.states import Category, Reason, State
from tests.support.deliveries import ALIASES, APPS
from tests.support.failed import told
from tests.support.till import Counter, End, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

MODES = pytest.mark.parametrize("mode", ["leased", "atomic"])
RETRIED = pytest.mark.parametrize("retried", [(), (Exception,)], ids=["not retried", "autoretry"])


class Order(BaseModel):
    """What a task takes."""

    number: int


def is_permanent(shop: Counter, end: End) -> bool:
    row = shop.row
    return (row.state, row.reason, row.category, end.is_retried) == (
        State.FAILED,
        Reason.PERMANENT,
        Category.FATAL,
        False,
    )


@MODES
@RETRIED
def test_wrong_arguments_are_permanent(till: Till, shop: Counter, mode: str, retried: Any) -> None:
    @till.guarded(mode=mode, autoretry_for=retried)
    def sell(self: Any, order: int, amount: str) -> None:  # noqa: ARG001
        shop.starts.append({})

    header = {"idempotency": header_of(sell)}
    end = till.deliver(sell, 7, headers=header, kwargs={"price": "9.90"})
    assert is_permanent(shop, end), (shop.row.state, shop.row.reason, end)
    assert (shop.runs, till.sent) == (0, [])
    assert told(shop) == [("TypeError", State.FAILED)]


def header_of(task: Any) -> dict[str, Any]:
    """The identity that travelled from a caller whose version of the task took other arguments."""
    from django_idempotent_tasks.identity.key import identify  # noqa: PLC0415
    from django_idempotent_tasks.messages.header import to_header  # noqa: PLC0415

    identity = identify(task.name, task.idempotency_policy.key_rules, (7, "x"), {}, task_id="A")
    return dict(to_header(identity, task_name=task.name, task_id="A"))


@MODES
def test_an_error_of_the_same_class_from_inside_the_body_is_retried_as_ever(
    till: Till, shop: Counter, mode: str
) -> None:
    @till.guarded(mode=mode, autoretry_for=(TypeError,))
    def sell(self: Any, order: int) -> int:  # noqa: ARG001
        return len(order)  # type: ignore[arg-type]

    assert till.deliver(sell, 7).is_retried
    assert (shop.state, shop.row.reason) == (State.RETRY, Reason.RETRY_ASKED)


def test_a_wrong_call_inside_the_body_is_no_misfit(till: Till, shop: Counter) -> None:
    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:
        self.run(order, order)

    till.deliver(sell, 7)
    assert (shop.state, shop.row.reason) == (State.FAILED, Reason.RETRIES_USED_UP)


@MODES
@RETRIED
def test_what_pydantic_refuses_is_permanent(till: Till, shop: Counter, mode: str, retried: Any) -> None:
    name = till.new_name()

    @till.guarded(mode=mode, pydantic=True, bind=False, autoretry_for=retried, name=name)
    def sell(order: Order) -> None:  # noqa: ARG001
        shop.starts.append({})

    end = till.deliver(till.tasks[name], {"number": "many"})
    assert is_permanent(shop, end), (shop.row.state, shop.row.reason, end)
    assert shop.runs == 0


def test_what_pydantic_refuses_inside_the_body_is_no_misfit(till: Till, shop: Counter) -> None:
    @till.guarded(mode="leased", autoretry_for=(ValidationError,))
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        Order(number="many")  # type: ignore[arg-type]

    assert till.deliver(sell, 7).is_retried
    assert shop.state is State.RETRY
