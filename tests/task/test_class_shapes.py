"""A project's own classes before and behind the mixin, and what monitoring tools put around a task."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery, Task
from celery.app.trace import reset_worker_optimizations, setup_worker_optimizations
from celery.contrib.django.task import DjangoTask
from celery.local import maybe_evaluate

from django_idempotent_tasks import ConfigurationError, IdempotentTask, IdempotentTaskMixin, current
from tests.support.post import only_row

pytestmark = pytest.mark.django_db


class Traced(Task):  # type: ignore[type-arg]
    """What projects have: something around every call, that knows nothing of us."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return ["around", super().__call__(*args, **kwargs)]


class ByItself(Task):  # type: ignore[type-arg]
    """The same, straight to the body."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return ["around", self.run(*args, **kwargs)]


@pytest.fixture(params=[False, True], ids=["plain process", "as in a worker"])
def _optimized(request: pytest.FixtureRequest, app: Celery) -> Any:
    """Celery's worker replaces ``Task.__call__`` for classes that call super()."""
    if request.param:
        from celery import current_app  # noqa: PLC0415

        before = current_app._get_current_object()  # type: ignore[attr-defined]
        setup_worker_optimizations(app)
        yield
        reset_worker_optimizations(app)
        before.set_current()
        before.set_default()
    else:
        yield


@pytest.mark.usefixtures("_optimized")
@pytest.mark.parametrize("mode", ["leased", "atomic"])
@pytest.mark.parametrize("around", [Traced, ByItself])
def test_what_a_class_behind_the_mixin_puts_around_a_call_is_put_around_the_guarded_body(
    app: Celery, around: type, mode: str
) -> None:
    class Base(IdempotentTaskMixin, around):  # type: ignore[misc]
        abstract = True

    @app.task(base=Base, bind=True, key="order", mode=mode)
    def charge(self: Any, order: int, *, again: bool = False) -> list[Any]:
        now = self.idempotency
        inner = [charge(order + 1)] if again and around is Traced else []
        return [self.request.id, now.token, now.key, *inner]

    result = charge.apply((7,), {"again": True})
    inner = [["around", [result.id, 0, "order=8"]]] if around is Traced else []
    assert result.get() == ["around", [result.id, 1, "order=7", *inner]]
    assert charge.delay(7).get()["reason"] == "already_completed"
    assert only_row().attempts == 1


def test_a_class_before_the_mixin_that_calls_super_is_around_the_guard(app: Celery) -> None:
    class Base(Traced, IdempotentTaskMixin):
        abstract = True

    @app.task(base=Base, key="order")
    def charge(order: int) -> str:
        return f"{order}: {current.attempt}"

    assert charge.delay(7).get() == ["around", "7: 1"]
    assert charge.delay(7).get()[1]["status"] == "skipped"


def wrapped(function: Callable[..., Any], seen: list[str]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        seen.append(function.__name__)
        return function(*args, **kwargs)

    return inner


def test_a_monitor_that_wraps_the_class_s_call_leaves_the_guard_in_force(app: Celery) -> None:
    seen: list[str] = []

    @app.task(base=IdempotentTask, key="order")
    def charge(order: int) -> int:
        return order

    kind: Any = type(maybe_evaluate(charge))
    kind.__call__ = wrapped(kind.__call__, seen)
    assert charge.delay(7).get() == 7
    assert charge.delay(7).get()["status"] == "skipped"
    assert seen == ["__call__", "__call__"]


def test_a_monitor_that_wraps_the_body_sees_the_bodies_that_run_and_no_duplicates(app: Celery) -> None:
    seen: list[str] = []

    @app.task(base=IdempotentTask, key="order")
    def charge(order: int) -> int:
        return order

    task = maybe_evaluate(charge)
    task.run = wrapped(task.run, seen)
    assert charge.delay(7).get() == 7
    assert charge.delay(7).get()["status"] == "skipped"
    assert seen == ["charge"]


def test_a_task_whose_options_were_never_read_can_neither_be_sent_nor_run(app: Celery) -> None:
    class Base(IdempotentTask):
        abstract = True

        @classmethod
        def on_bound(cls, app: Celery) -> None:
            """Forget to call super()."""

    @app.task(base=Base, key="order")
    def charge(order: int) -> int:  # noqa: ARG001
        pytest.fail("it ran")

    for call in (charge.delay, charge.submit, charge):
        with pytest.raises(ConfigurationError, match="on_bound"):
            call(7)
    with pytest.raises(ConfigurationError, match="on_bound"):
        charge.apply((7,)).get()


def test_two_classes_of_a_project_guard_with_what_each_of_them_says(app: Celery) -> None:
    class Slow(IdempotentTaskMixin, DjangoTask):  # type: ignore[type-arg]
        abstract = True
        lease = 300

    class Strict(Slow):
        abstract = True
        on_duplicate = "raise"

    @app.task(base=Strict, key="order", lease=30)
    def charge(order: int) -> int:
        return order

    @app.task(base=Slow, key="order")
    def ship(order: int) -> int:
        return order

    policies = [maybe_evaluate(task).idempotency_policy for task in (charge, ship)]
    assert [(policy.lease, policy.on_duplicate) for policy in policies] == [(30, "raise"), (300, "skip")]
