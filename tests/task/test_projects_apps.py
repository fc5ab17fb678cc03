"""What a project says in its app and its settings: the tasks' class, annotations, several apps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from celery import Celery, shared_task
from celery._state import _on_app_finalizers  # type: ignore[attr-defined]  # not in the stubs
from celery.local import maybe_evaluate

from django_idempotent_tasks import ConfigurationError, IdempotentTask
from django_idempotent_tasks.models import IdempotencyKey
from tests.support.eager import EagerApp
from tests.support.post import only_row

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("module", ["django_idempotent_tasks", "django_idempotent_tasks.task.mixin"])
def test_the_tasks_class_may_be_named_by_its_path(module: str) -> None:
    app = EagerApp(task_cls=f"{module}:IdempotentTask")

    @app.task(key="order")  # type: ignore[untyped-decorator]
    def charge(order: int) -> int:
        return order

    @app.task
    def plain(order: int) -> int:
        return order

    assert charge.delay(7).get() == 7
    assert charge.delay(7).get()["status"] == "skipped"
    assert [plain.delay(7).get(), plain.delay(7).get()] == [7, 7]
    assert (charge.acks_late, plain.acks_late) == (True, False)
    assert only_row().task == charge.name


def test_options_of_the_tasks_class_are_defaults_and_guard_no_task_by_themselves() -> None:
    class Base(IdempotentTask):
        abstract = True
        lease = 300

    app = EagerApp(task_cls=Base)

    @app.task
    def plain(order: int) -> int:
        return order

    @app.task(key="order")  # type: ignore[untyped-decorator]
    def charge(order: int) -> int:
        return order

    @app.task(base=Base)  # type: ignore[untyped-decorator]
    def asked_for(order: int) -> int:
        return order

    assert [plain.delay(7).get(), plain.delay(7).get()] == [7, 7]
    assert IdempotencyKey.objects.count() == 0
    for task in (charge, asked_for):
        assert task.idempotency_policy.lease == 300
        assert task.delay(7).get() == 7
        assert task.delay(7).get()["status"] == "skipped"


def test_guard_all_never_guards_celery_s_own_tasks(settings: Any) -> None:
    settings.IDEMPOTENT_TASKS = {"GUARD_ALL": True}
    app = EagerApp(task_cls=IdempotentTask)
    app.finalize()
    assert isinstance(app.tasks["celery.chord_unlock"], IdempotentTask)
    guarded = [name for name, task in app.tasks.items() if hasattr(task, "idempotency_policy")]
    assert not any(name.startswith("celery.") for name in guarded)


def test_annotations_set_our_options_beside_celery_s(app: Celery) -> None:
    app.conf.task_annotations = {
        "shop.charge": {"lease": 30, "rate_limit": "3/s", "key": lambda order, note: order}  # noqa: ARG005
    }

    @app.task(base=IdempotentTask, name="shop.charge", lease=300)
    def charge(order: int, note: str = "") -> int:  # noqa: ARG001
        return order

    task = maybe_evaluate(charge)
    assert (task.idempotency_policy.lease, task.rate_limit) == (30, "3/s")
    assert charge.delay(7, "a").get() == 7
    assert charge.delay(7, "b").get()["key"] == "key=7"


def test_a_wrong_annotation_is_that_task_s_error_only(app: Celery) -> None:
    app.conf.task_annotations = {"shop.charge": {"lease": 0}, "*": {"retention": 99}}

    @app.task(base=IdempotentTask, name="shop.charge")
    def charge(order: int) -> None:
        pass

    @app.task(base=IdempotentTask, name="shop.ship")
    def ship(order: int) -> int:
        return order

    with pytest.raises(ConfigurationError, match=r"shop\.charge: option .lease."):
        charge.delay(7)
    assert ship.delay(7).get() == 7
    assert maybe_evaluate(ship).idempotency_policy.retention == 99


def test_an_annotation_guards_the_task_it_names_and_one_for_all_guards_none() -> None:
    app = EagerApp(task_cls=IdempotentTask)
    app.conf.task_annotations = {"shop.charge": {"key": "order"}, "*": {"lease": 30}}

    @app.task(name="shop.charge")  # type: ignore[untyped-decorator]
    def charge(order: int) -> int:
        return order

    @app.task(name="shop.nothing")  # type: ignore[untyped-decorator]
    def nothing() -> str:
        return "done"

    assert [nothing.delay().get(), nothing.delay().get()] == ["done", "done"]
    assert charge.delay(7).get() == 7
    assert charge.delay(7).get()["status"] == "skipped"
    assert charge.idempotency_policy.lease == 30


@contextmanager
def forgotten_afterwards() -> Iterator[None]:
    """Celery gives shared tasks to every app that is made later in the process."""
    before = set(_on_app_finalizers)
    try:
        yield
    finally:
        _on_app_finalizers.intersection_update(before)


def test_a_shared_task_is_one_task_with_one_ledger_in_every_app() -> None:
    with forgotten_afterwards():

        @shared_task(base=IdempotentTask, bind=True, key="order", name="reusable.charge")
        def charge(self: Any, order: int) -> str:
            return f"{order} in {self.app.main}"

        first, second = EagerApp(), EagerApp(task_cls=IdempotentTask)
        second.main = "second"
        one, other = (app.tasks["reusable.charge"] for app in (first, second))
        assert one is not other
        assert one.delay(7).get() == "7 in eager"
        assert other.delay(order=7).get()["reason"] == "already_completed"
        assert other.delay(8).get() == "8 in second"
        assert set(IdempotencyKey.objects.values_list("task", flat=True)) == {"reusable.charge"}
