"""A task's own ``before_start``, ``on_success`` and the like are called for work that was done, once."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery, Task
from celery.local import maybe_evaluate
from django.db import connection

from django_idempotent_tasks import IdempotentTask, IdempotentTaskMixin
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import Reason, State
from tests.support.deliveries import APPS
from tests.support.till import Till

pytestmark = pytest.mark.django_db(transaction=True, available_apps=APPS)

MODES = ["leased", "atomic"]


class Told(Task):  # type: ignore[type-arg]
    """What a project has: it writes down what it is told. It knows nothing of us."""

    abstract = True
    heard: list[str]

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        self.heard.append(f"before {task_id} {[*args, *kwargs.values()]}")

    def on_success(self, retval: Any, task_id: str, args: Any, kwargs: Any) -> None:  # noqa: ARG002
        self.heard.append(f"success {task_id} {retval}")

    def on_failure(self, exc: Any, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:  # noqa: ARG002
        self.heard.append(f"failure {task_id} {type(exc).__name__}")

    def on_retry(self, exc: Any, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:  # noqa: ARG002
        self.heard.append(f"retry {task_id} {type(exc).__name__}")

    def after_return(self, status: str, retval: Any, task_id: str, *rest: Any) -> None:  # noqa: ARG002
        self.heard.append(f"after {task_id} {status}")


class Behind(IdempotentTaskMixin, Told):
    """The mixin before it, as the pages say."""

    abstract = True


class Before(IdempotentTask):
    """A class of a project's own on top of ours, which says more and calls super()."""

    abstract = True
    heard: list[str]

    before_start, on_success, on_failure = Told.before_start, Told.on_success, Told.on_failure
    on_retry = Told.on_retry

    def after_return(self, status: str, retval: Any, task_id: str, *rest: Any) -> None:
        self.heard.append(f"after {task_id} {status}")
        super().after_return(status, retval, task_id, *rest)


BASES = [Behind, Before]


def telling(app: Any, body: Callable[..., Any], base: Any = Behind, **options: Any) -> Any:
    """A task of such a class, with a list of its own."""
    decorate = app.task(base=base, bind=True, shared=False, key="order", **options)
    task = maybe_evaluate(decorate(body))
    type(task).heard = []
    return task


def give(self: Any, order: int) -> int:  # noqa: ARG001
    return order


def fail(self: Any, order: int) -> None:  # noqa: ARG001
    raise ValueError(order)


ONCE = ["before A [7]", "success A 7", "after A SUCCESS"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("on_duplicate", ["skip", "replay", "raise"])
def test_neither_a_refused_duplicate_nor_the_same_call_again_is_told_of(
    till: Till, base: Any, mode: str, on_duplicate: str
) -> None:
    charge = telling(till, give, base, mode=mode, on_duplicate=on_duplicate)
    assert till.deliver(charge, 7).result == 7
    assert charge.heard == ONCE
    till.deliver(charge, 7, id="B")
    assert till.deliver(charge, 7, redelivered=True).result == 7
    assert charge.heard == ONCE


@pytest.mark.parametrize("mode", MODES)
def test_an_eager_duplicate_is_not_told_of_either(app: Celery, mode: str) -> None:
    charge = telling(app, give, mode=mode)
    for task_id in ("A", "B"):
        charge.apply((7,), task_id=task_id)
    assert charge.heard == ONCE


@pytest.mark.parametrize("mode", MODES)
def test_a_failure_is_told_once_and_not_of_the_calls_that_hear_of_it(till: Till, mode: str) -> None:
    charge = telling(till, fail, mode=mode, on_failed="block", on_duplicate="raise")
    for task_id in ("A", "A", "B"):
        assert till.deliver(charge, 7, id=task_id).error is not None
    assert charge.heard == ["before A [7]", "failure A ValueError", "after A FAILURE"]


@pytest.mark.parametrize("mode", MODES)
def test_each_attempt_is_told_of_as_celery_does(till: Till, mode: str) -> None:
    charge = telling(till, fail, mode=mode, autoretry_for=(ValueError,), max_retries=1, default_retry_delay=0)
    till.deliver(charge, 7)
    till.deliver_sent(charge)
    retried = ["before A [7]", "retry A ValueError"]
    assert charge.heard == [*retried, "before A [7]", "failure A ValueError", "after A FAILURE"]


def test_a_call_that_came_back_is_told_of_when_it_runs(till: Till) -> None:
    def meet(self: Any, order: int) -> int:
        if self.request.id == "A":
            assert till.deliver(charge, order, id="B").is_ignored
            raise ValueError(order)
        return order

    charge = telling(till, meet, on_duplicate="replay")
    till.deliver(charge, 7)
    charge.heard.clear()
    assert till.deliver_sent(charge).result == 7
    assert charge.heard == ["before B [7]", "success B 7", "after B SUCCESS"]


def test_an_attempt_whose_completion_is_refused_is_not_told_of_as_a_success(till: Till) -> None:
    def lose(self: Any, order: int) -> int:  # noqa: ARG001
        taken = {"owner": "another", "token": 99, "state": State.SUCCEEDED, "reason": Reason.DONE}
        IdempotencyKey.objects.update(**taken, result="8")
        return order

    charge = telling(till, lose)
    assert till.deliver(charge, 7).result == 8
    assert charge.heard == ["before A [7]"]


@pytest.mark.parametrize("mode", MODES)
def test_what_is_called_before_the_start_is_called_inside_the_claim_and_may_change_the_call(
    till: Till, mode: str
) -> None:
    class Prepared(Behind):
        abstract = True

        def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
            super().before_start(task_id, args, kwargs)
            self.heard.append(f"{self.idempotency.attempt} {connection.in_atomic_block}")
            args[0] += 1
            if args[0] == 13:
                raise LookupError(task_id)

    charge = telling(till, give, Prepared, mode=mode)
    assert till.deliver(charge, 7).result == 8
    assert charge.heard[:2] == ["before A [7]", f"1 {mode == 'atomic'}"]
    assert isinstance(till.deliver(charge, 12, id="B").error, LookupError)
    assert IdempotencyKey.objects.get(task_id="B").state == State.FAILED


def test_a_registered_class_and_one_that_derives_from_it_are_told_once(app: Celery) -> None:
    class Charge(Behind):
        name = "shop.charge"
        key = "order"
        heard: list[str] = []

        def run(self, order: int) -> int:
            return order

        def on_success(self, retval: Any, task_id: str, args: Any, kwargs: Any) -> None:
            self.heard.append("own")
            super().on_success(retval, task_id, args, kwargs)

    class Refund(Charge):
        name = "shop.refund"
        heard: list[str] = []

        def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
            self.heard.append("own before")
            super().before_start(task_id, args, kwargs)

    for kind, before in ((Charge, []), (Refund, ["own before"])):
        task = app.register_task(kind())
        for task_id in ("A", "B"):
            task.apply((7,), task_id=task_id)
        assert task.heard == [*before, "before A [7]", "own", "success A 7", "after A SUCCESS"]


@pytest.mark.parametrize("mode", MODES)
def test_a_hook_may_be_anything_that_can_be_called(till: Till, mode: str) -> None:
    heard: list[Any] = []

    class Hearing:
        """No function: nothing binds it to the task."""

        def __init__(self, name: str) -> None:
            self.name = name

        def __call__(self, *told: Any) -> None:
            heard.append((self.name, *told))

    hooks = {name: Hearing(name) for name in ("before_start", "on_success")}
    charge = till.guarded(mode=mode, **hooks)(give)
    for _ in range(2):
        assert till.deliver(charge, 7).result == 7
    assert heard == [("before_start", "A", [7], {}), ("on_success", 7, "A", [7], {})]


def test_hooks_that_are_called_by_hand_do_what_they_say(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    charge = telling(app, give)
    charge.before_start("A", (7,), {})
    charge.on_success(7, "A", (7,), {})
    assert charge.heard == ONCE[:2]
    assert charge.on_success.__name__ == "on_success"
    monkeypatch.setattr("celery._state._tls.current_app", app)
    assert pickle.loads(pickle.dumps(charge)).name == charge.name  # noqa: S301  our own


def test_a_task_that_is_not_guarded_keeps_celerys_order(app: Celery) -> None:
    app.Task = app.subclass_with_self(Behind, name="Task", attribute="_app", abstract=True)  # type: ignore[misc]
    charge = maybe_evaluate(app.task(bind=True, shared=False)(give))
    type(charge).heard = []
    assert charge.idempotency_guarded is False
    for task_id in ("A", "A"):
        charge.apply((7,), task_id=task_id)
    assert charge.heard == [*ONCE, *ONCE]
