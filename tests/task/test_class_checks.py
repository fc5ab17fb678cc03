"""``manage.py check`` finds classes that leave the guard out, and options that guard nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import Celery, Task
from celery.contrib.django.task import DjangoTask
from celery.local import maybe_evaluate
from django.core.checks import CheckMessage, run_checks

from django_idempotent_tasks import IdempotentTask, IdempotentTaskMixin, checks

ID = "django_idempotent_tasks"


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[Celery]:
    """The app whose tasks are checked."""
    app = Celery("checked", set_as_current=False, backend="disabled://")
    monkeypatch.setattr(checks, "current_app", app)
    yield app
    app.close()


@pytest.fixture
def declare(app: Celery) -> Callable[..., Any]:
    """Declare a task of a base with options."""

    def declare(base: type | None = None, /, **options: Any) -> Any:
        def charge(order: int) -> int:
            return order

        options |= {"name": "shop.charge", "base": base, "shared": False}
        return maybe_evaluate(app.task(**options)(charge))

    return declare


def found(*names: str) -> list[CheckMessage]:
    ids = {f"{ID}.{name}" for name in names}
    return [message for message in run_checks(tags=["idempotent_tasks"]) if message.id in ids]


class Around(Task):  # type: ignore[type-arg]
    """Goes straight to the body."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(*args, **kwargs)


def test_a_class_whose_own_call_skips_the_guard_is_e003(declare: Any) -> None:
    class Base(Around, IdempotentTaskMixin):
        abstract = True

    declare(Base, key="order")
    (error,) = found("E003")
    assert "Task shop.charge: Around.__call__() comes before" in error.msg
    assert "super().__call__(...)" in str(error.hint)


def test_a_body_that_says_super_does_not_speak_for_the_class_that_skips_the_guard(app: Celery) -> None:
    class Charge(Around, IdempotentTaskMixin):
        name = "shop.charge"

        def run(self, order: int) -> Any:
            return super().run(order)

    app.register_task(Charge())
    assert len(found("E003")) == 1


def test_django_s_class_before_the_mixin_takes_its_calls_on_commit_away(declare: Any) -> None:
    class Base(DjangoTask, IdempotentTaskMixin):  # type: ignore[type-arg]
        abstract = True

    declare(Base, key="order")
    texts = "".join(error.msg for error in found("E003"))
    assert "DjangoTask.delay_on_commit()" in texts
    assert "DjangoTask.apply_async_on_commit()" in texts


def test_a_class_that_never_reads_the_options_is_named(declare: Any, app: Celery) -> None:
    class Base(IdempotentTask):
        abstract = True

        @classmethod
        def on_bound(cls, app: Celery) -> None:
            """Forget to call super()."""

    declare(Base, key="order")
    assert [error.id for error in found("E001", "E003")] == [f"{ID}.E001", f"{ID}.E003"]
    assert "Task shop.charge: its options were never read" in checks.problems(app)[0]


class BySuper(Task):  # type: ignore[type-arg]
    """Extends."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs)


class ByName(Task):  # type: ignore[type-arg]
    """Calls the mixin by its name."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return IdempotentTaskMixin.__call__(self, *args, **kwargs)  # type: ignore[arg-type]


class ByHelper(Task):  # type: ignore[type-arg]
    """Leaves it to a method of its own, in a function inside."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.within(lambda: self.really(*args, **kwargs))

    def within(self, call: Callable[[], Any]) -> Any:
        return call()

    def really(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs)


@pytest.mark.parametrize("before", [BySuper, ByName, ByHelper])
def test_a_class_that_extends_the_guard_is_fine(declare: Any, before: type) -> None:
    class Base(before, IdempotentTaskMixin):  # type: ignore[misc]
        abstract = True

    declare(Base, key="order")
    assert found("E001", "E003", "W006") == []


def test_a_class_behind_the_mixin_is_fine(declare: Any) -> None:
    class Base(IdempotentTaskMixin, Around):
        abstract = True

    declare(Base, key="order")
    assert found("E001", "E003", "W006") == []


def test_what_monitors_put_around_the_call_is_fine(declare: Any) -> None:
    kind: Any = type(declare(IdempotentTask, key="order"))
    ours = kind.__call__

    def unnamed(*args: Any, **kwargs: Any) -> Any:
        return ours(*args, **kwargs)

    kind.__call__ = functools.wraps(ours)(unnamed)
    assert found("E003") == []
    kind.__call__ = unnamed
    assert found("E003") == []
    kind.__call__ = lambda task, *args, **kwargs: task.run(*args, **kwargs)
    assert len(found("E003")) == 1


def test_options_on_a_task_without_our_class_are_w004(declare: Any) -> None:
    declare(key="order", lease=30, rate_limit="3/s")
    (warning,) = found("W006")
    assert "shop.charge sets 'key', 'lease' and is no IdempotentTask" in warning.msg
    assert "base=IdempotentTask" in str(warning.hint)


def test_an_attribute_of_a_project_s_class_is_told_as_well(declare: Any) -> None:
    class Base(Task):  # type: ignore[type-arg]
        abstract = True
        on_duplicate = "raise"

    declare(Base)
    assert "'on_duplicate'" in found("W006")[0].msg


def test_guarded_and_plain_tasks_are_fine_and_so_is_an_option_for_every_task(
    declare: Any, app: Celery
) -> None:
    app.conf.task_annotations = {"*": {"lease": 30}}
    declare(rate_limit="3/s")
    assert found("E001", "E003", "W006") == []


def test_what_another_package_s_class_left_on_a_guarded_task_is_told_of(declare: Any) -> None:
    declare(IdempotentTask, key="order", once={"graceful": True})
    (warning,) = found("W009")
    assert "shop.charge sets 'once' of celery-once" in warning.msg
    assert "docs/migrating.md" in str(warning.hint)


def test_a_lease_on_an_atomic_task_does_nothing_and_is_told_of(declare: Any) -> None:
    declare(IdempotentTask, key="order", mode="atomic", lease=30)
    (warning,) = found("W011")
    assert "shop.charge is atomic and sets 'lease'" in warning.msg
    assert "time_limit=" in str(warning.hint)


def test_a_lease_for_every_task_is_not_meant_for_an_atomic_one(declare: Any, app: Celery) -> None:
    app.conf.task_annotations = {"*": {"lease": 60}}
    declare(IdempotentTask, key="order", mode="atomic")
    assert found("W011") == []


def test_a_task_of_another_package_keeps_its_options(declare: Any) -> None:
    declare(once={"graceful": True})
    assert found("W009") == []


def test_an_option_on_an_instance_would_do_nothing_and_is_e001(app: Celery) -> None:
    class Charge(IdempotentTask):
        def __init__(self, name: str, key: str) -> None:
            self.name = name
            self.key = key

        def run(self, order: int, amount: int) -> list[int]:
            return [order, amount]

    app.register_task(Charge("shop.charge", "order"))
    assert [error.msg for error in found("E001")] == [
        "Task shop.charge: option 'key' is set on an instance; set it on the class."
    ]
