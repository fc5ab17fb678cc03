"""Celery's own options of a task beside ours: pydantic, serializers, results, type checks."""

from __future__ import annotations

from datetime import date
from typing import Any
from uuid import UUID, uuid4

import pytest
from celery import Celery, Task
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy
from pydantic import BaseModel

from django_idempotent_tasks import IdempotentTask, InvalidKey, get_key
from django_idempotent_tasks.models import IdempotencyKey
from tests.support.post import only_row

pytestmark = pytest.mark.django_db


class Order(BaseModel):
    """An argument whose fields are no JSON by themselves."""

    number: int
    day: date = date(2026, 1, 2)
    id: UUID


ORDER = Order(number=7, id=uuid4())
sends_models = pytest.mark.skipif(
    not hasattr(Task, "_dump_pydantic_arguments"), reason="Celery before 5.7 sends no models"
)


@sends_models
def test_a_model_is_one_call_by_whatever_road_and_in_whatever_form_it_comes(app: Celery) -> None:
    @app.task(base=IdempotentTask, pydantic=True, bind=True)
    def charge(self: Any, order: Order, amount: int = 1) -> list[Any]:  # noqa: ARG001
        return [order.number, self.idempotency.key]

    result = charge.apply((ORDER,)).get()
    assert result[0] == 7
    again = [
        charge.delay(ORDER),
        charge.delay(order=ORDER, amount=1),
        charge.delay(ORDER.model_dump(mode="json")),
        charge.apply(kwargs={"order": ORDER}),
        charge.apply((ORDER,), scope=None),
    ]
    assert [each.get()["reason"] for each in again] == ["already_completed"] * 5
    assert charge(ORDER)[1] == result[1] == only_row().key_text
    assert get_key(charge, (ORDER,)) == get_key(charge, kwargs={"order": ORDER}) == only_row()


@sends_models
def test_functions_of_the_arguments_get_the_model_s_json(app: Celery) -> None:
    seen: list[Any] = []

    def note(order: dict[str, Any]) -> Any:
        seen.append(order)
        return order["number"]

    @app.task(
        base=IdempotentTask,
        pydantic=True,
        key=note,
        scope=lambda order: order["day"],
        fingerprint=lambda order: order["id"],
    )
    def charge(order: Order) -> int:
        return order.number

    charge.delay(ORDER)
    charge.apply((ORDER,))
    assert seen == [{"number": 7, "day": "2026-01-02", "id": str(ORDER.id)}] * len(seen)
    assert (only_row().key_text, only_row().scope) == ("key=7", "2026-01-02")


@sends_models
def test_a_model_in_an_atomic_task_is_the_same_call_too(app: Celery) -> None:
    @app.task(base=IdempotentTask, pydantic=True, mode="atomic", on_duplicate="replay")
    def charge(order: Order) -> Order:
        return order

    assert charge.apply((ORDER,)).get() == charge.delay(ORDER).get() == ORDER.model_dump(mode="json")
    assert only_row().attempts == 1


def test_results_that_celery_ignores_are_replayed_all_the_same(app: Celery) -> None:
    @app.task(base=IdempotentTask, key="order", on_duplicate="replay", ignore_result=True, trail=False)
    def charge(order: int) -> dict[str, int]:
        return {"order": order}

    assert charge.delay(7).get() == charge.delay(7).get() == {"order": 7}


def test_expected_errors_are_recorded_like_others(app: Celery) -> None:
    @app.task(base=IdempotentTask, key="order", throws=(KeyError,), on_failed="block")
    def charge(order: int) -> None:
        raise KeyError(order)

    with pytest.raises(KeyError):
        charge.delay(7).get()
    assert "KeyError" in (only_row().result or "")


def test_arguments_that_do_not_fit_are_refused_before_the_key_without_celery_s_type_check_too(
    app: Celery,
) -> None:
    @app.task(base=IdempotentTask, key="order", typing=False)
    def charge(order: int) -> int:
        return order

    for args in [(), (1, 2)]:
        with pytest.raises(TypeError, match="charge"):
            charge.delay(*args)
    assert IdempotencyKey.objects.count() == 0


@pytest.mark.parametrize("value", [object(), iter([1]), bytes, Order])
def test_what_json_cannot_hold_is_refused_in_the_caller_also_where_the_serializer_could(
    app: Celery, value: object
) -> None:
    @app.task(base=IdempotentTask, key="order", serializer="pickle")
    def charge(order: int, extra: Any = None) -> int:  # noqa: ARG001
        return order

    with pytest.raises(InvalidKey, match="argument 'extra'"):
        charge.delay(7, value)
    assert charge.delay(7, [1, {"a": 2}]).get() == 7


@pytest.mark.parametrize("reserve", [False, True])
def test_what_cannot_be_sent_is_refused_before_a_row_is_written(app: Celery, reserve: bool) -> None:
    app.conf.task_always_eager = False

    @app.task(base=IdempotentTask, key="order", reserve=reserve)
    def charge(order: int, extra: Any = None) -> None:
        pass

    with pytest.raises(InvalidKey, match="argument"):
        charge.delay(float("nan"))
    for value in (object(), {"deep": [object()]}):
        with pytest.raises(InvalidKey, match="argument"):
            charge.delay(7, value)
        with pytest.raises(InvalidKey, match="argument"):
            charge.delay(value)
    assert IdempotencyKey.objects.count() == 0


def test_texts_of_django_s_kinds_are_texts(app: Celery) -> None:
    @app.task(base=IdempotentTask)
    def charge(name: str) -> str:
        return name

    assert charge.delay("paid").get() == "paid"
    for same in (mark_safe("paid"), gettext_lazy("paid")):
        assert charge.delay(same).get()["reason"] == "already_completed"


def test_a_task_without_arguments_runs_once_a_tenant(app: Celery) -> None:
    tenants = iter(["acme", "acme", "other"])

    @app.task(base=IdempotentTask, key=())
    def report() -> str:
        return "done"

    @app.task(base=IdempotentTask, key=(), scope=lambda: next(tenants))
    def nightly() -> str:
        return "done"

    per_call = [report.apply_async(scope=scope).get() for scope in ("acme", "acme", "other", None)]
    by_function = [nightly.apply_async().get() for _ in range(3)]
    assert [result == "done" for result in per_call] == [True, False, True, True]
    assert [result == "done" for result in by_function] == [True, False, True]


def test_one_key_of_two_tasks_is_two_pieces_of_work(app: Celery) -> None:
    @app.task(base=IdempotentTask)
    def charge(order: int) -> list[Any]:
        return ["charged", order]

    @app.task(base=IdempotentTask)
    def ship(order: int) -> list[Any]:
        return ["shipped", order]

    first = [task.apply_async((7,), idempotency_key="evt_1").get() for task in (charge, ship)]
    assert first == [["charged", 7], ["shipped", 7]]
    assert ship.apply_async((7,), idempotency_key="evt_1").get()["reason"] == "already_completed"
