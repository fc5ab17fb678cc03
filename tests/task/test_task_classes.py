"""Which tasks are guarded, whatever class and decorator they are made with."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
from celery import Celery, Task
from celery.contrib.django.task import DjangoTask
from celery.local import maybe_evaluate
from django.db import transaction
from pydantic import BaseModel

from django_idempotent_tasks import (
    TASK_ID,
    ConfigurationError,
    IdempotentTask,
    IdempotentTaskMixin,
    OuterTransaction,
    dead_letter,
)
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.support.eager import EagerApp
from tests.support.post import only_row

pytestmark = pytest.mark.django_db


class Order(BaseModel):
    """What a task with pydantic=True takes and returns."""

    number: int
    note: str = "none"


@pytest.mark.skipif(not hasattr(Task, "_dump_pydantic_arguments"), reason="Celery before 5.7 sends no models")
def test_pydantic_models_are_identified_and_replayed_as_their_data(app: Celery) -> None:
    @app.task(base=IdempotentTask, pydantic=True, on_duplicate="replay")
    def charge(order: Order) -> Order:
        return Order(number=order.number + 1)

    first = charge.delay(Order(number=7)).get()
    again = charge.delay(order={"number": 7, "note": "none"}).get()
    assert first == again == {"number": 8, "note": "none"}
    assert only_row().attempts == 1


def test_a_class_that_calls_super_is_guarded_once(app: Celery) -> None:
    calls: list[str] = []

    class Traced(IdempotentTask):
        abstract = True

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            calls.append("before")
            return super().__call__(*args, **kwargs)

    @app.task(base=Traced, key="order")
    def charge(order: int) -> int:
        calls.append("body")
        return order

    assert charge.delay(7).get() == 7
    assert charge.delay(7).get()["status"] == "skipped"
    assert charge(7) == 7
    assert calls == ["before", "body", "before", "before", "body"]
    assert only_row().attempts == 1


def test_a_registered_class_is_guarded(app: Celery) -> None:
    class Charge(IdempotentTask):
        name = "class based"
        key = "order"

        def run(self, order: int) -> list[Any]:
            return [order, self.idempotency.attempt]

    charge = app.register_task(Charge())
    assert charge.delay(7).get() == [7, 1]
    assert charge.delay(order=7).get()["reason"] == "already_completed"
    assert charge(8) == [8, 1]
    assert only_row().key_text == "order=7"


def test_the_mixin_works_on_a_projects_own_class(app: Celery) -> None:
    class Base(IdempotentTaskMixin, DjangoTask):  # type: ignore[type-arg]
        abstract = True
        retention = 60

    @app.task(base=Base, key="order")
    def charge(order: int) -> int:
        return order

    assert charge.delay(7).get() == 7
    row = only_row()
    assert row.open_at is not None
    assert row.finished_at is not None
    assert (row.open_at - row.finished_at).total_seconds() == 60


def test_with_task_cls_only_tasks_that_set_an_option_are_guarded() -> None:
    app = EagerApp(task_cls=IdempotentTask)
    app.conf.task_acks_late = False

    @app.task
    def plain(number: int) -> int:
        return number

    @app.task(key="number")  # type: ignore[untyped-decorator]
    def guarded(number: int) -> int:
        return number

    @app.task(name="celery.looks_like_its_own", key="number")  # type: ignore[untyped-decorator]
    def internal(number: int) -> int:
        return number

    assert [plain.delay(1).get(), plain.delay(1).get(), internal.delay(1).get()] == [1, 1, 1]
    assert IdempotencyKey.objects.count() == 0
    assert guarded.delay(1).get() == 1
    assert guarded.delay(1).get()["status"] == "skipped"
    assert (plain.acks_late, guarded.acks_late) == (False, True)


def test_guard_all_guards_the_others_as_well(settings: Any) -> None:
    settings.IDEMPOTENT_TASKS = {"GUARD_ALL": True}
    app = EagerApp(task_cls=IdempotentTask)

    @app.task
    def plain(number: int) -> int:
        return number

    assert plain.delay(1).get() == 1
    assert plain.delay(1).get()["status"] == "skipped"


def test_arguments_that_do_not_fit_are_an_error_for_the_caller(app: Celery) -> None:
    @app.task(base=IdempotentTask, key="order")
    def charge(order: int, amount: str = "1") -> None:
        pass

    for args, kwargs in [((), {}), ((1, "2", 3), {}), ((1,), {"colour": "red"})]:
        with pytest.raises(TypeError):
            charge.apply_async(args, kwargs)
    assert IdempotencyKey.objects.count() == 0


def test_options_of_one_call_are_ours_and_celerys_together(app: Celery) -> None:
    @app.task(base=IdempotentTask, bind=True, key="order")
    def charge(self: Any, order: int) -> list[Any]:  # noqa: ARG001
        return [self.request.id, self.request.headers["trace"], self.idempotency.scope, self.idempotency.key]

    result = charge.apply_async(
        (7,),
        task_id="given",
        headers={"trace": "t1"},
        countdown=5,
        priority=3,
        idempotency_key="k",
        scope="s",
    )
    assert result.get() == ["given", "t1", "s", "k"]
    assert charge.signature((7,), idempotency_key="k", scope="s").apply_async().get()["status"] == "skipped"


def test_a_task_with_a_wrong_option_cannot_be_sent_and_harms_no_other(app: Celery) -> None:
    @app.task(base=IdempotentTask, lease=0)
    def broken(order: int) -> None:
        pass

    @app.task(base=IdempotentTask)
    def sound(order: int) -> int:
        return order

    with pytest.raises(ConfigurationError, match="lease"):
        broken.delay(1)
    with pytest.raises(ConfigurationError, match="lease"):
        broken.apply((1,)).get()
    assert sound.delay(1).get() == 1


def frames(error: BaseException | None) -> int:
    assert error is not None
    return sum(1 for _ in traceback.walk_tb(error.__traceback__))


def test_an_error_that_is_kept_for_every_call_does_not_gather_the_frames_of_each(app: Celery) -> None:
    class Unread(IdempotentTask):
        abstract = True

        @classmethod
        def on_bound(cls, app: Celery) -> None:
            """Forget to call super()."""

    @app.task(base=IdempotentTask, lease=0)
    def broken(order: int) -> None:
        pass

    @app.task(base=Unread)
    def unread(order: int) -> None:
        pass

    for task in (maybe_evaluate(broken), maybe_evaluate(unread)):
        kept = task.idempotency_error
        before = frames(kept)
        for call in (task.delay, task.submit, task, lambda order, task=task: dead_letter(task, (order,))):
            with pytest.raises(ConfigurationError) as raised:
                call(7)
            assert raised.value is not kept
            assert (type(raised.value), str(raised.value)) == (type(kept), str(kept))
        assert task.apply((7,)).result is not kept
        assert task.idempotency_error is kept
        assert frames(kept) == before


def test_headers_that_a_body_forwards_do_not_carry_its_key(app: Celery) -> None:
    @app.task(base=IdempotentTask, bind=True, key="order")
    def notify(self: Any, order: int) -> str:  # noqa: ARG001
        return str(self.idempotency.key)

    @app.task(base=IdempotentTask, bind=True, key="order")
    def charge(self: Any, order: int) -> list[str]:
        headers = dict(self.request.headers)
        other_task = notify.apply_async((order,), headers=headers).result
        other_call = self.apply_async((order - 1,), headers=headers).result if order else []
        return [other_task, *other_call]

    assert charge.delay(1).get() == ["order=1", "order=0"]
    rows = IdempotencyKey.objects.values_list("task", "key_text", "state")
    assert sorted(rows) == sorted(
        (task.name, f"order={order}", State.SUCCEEDED) for task in (charge, notify) for order in (0, 1)
    )


def test_every_call_is_new_work_where_the_task_id_is_the_key(app: Celery) -> None:
    @app.task(base=IdempotentTask, key=TASK_ID)
    def ping() -> str:
        return "pong"

    assert [ping.delay().get(), ping.delay().get()] == ["pong", "pong"]
    assert ping.apply_async(task_id="one").get() == ping.apply_async(task_id="one").get() == "pong"
    assert IdempotencyKey.objects.count() == 3


def test_a_delivery_inside_an_open_transaction_is_refused(app: Celery) -> None:
    @app.task(base=IdempotentTask, key="order")
    def charge(order: int) -> None:  # noqa: ARG001
        pytest.fail("it ran")

    charge.push_request(
        id="delivered", args=(7,), kwargs={}, is_eager=False, called_directly=False, retries=0
    )
    try:
        with transaction.atomic(), pytest.raises(OuterTransaction):
            charge.__call__(7)
    finally:
        charge.pop_request()
    assert IdempotencyKey.objects.count() == 0
