"""The fixture ``idempotent_tasks``: what a project's own tests do with reserved calls, on both databases."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery
from django.db import connections, transaction
from django.test import TestCase

from django_idempotent_tasks import IdempotentTask, LeaseLost, TransientError
from django_idempotent_tasks.states import State
from django_idempotent_tasks.testing.project import IdempotentTasks
from tests.support.deliveries import ALIASES, need_postgresql

if TYPE_CHECKING:
    from pytest_django import Settings

pytestmark = pytest.mark.django_db(databases=ALIASES)


class Shop:
    """The tasks of one test, and what their bodies saw."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.app: Any = Celery("plugin", set_as_current=False, broker="redis://127.0.0.1:9/0")
        self.seen: list[Any] = []

    def task(self, **options: Any) -> Any:
        """A reserving task, whose body notes what it knows."""

        def run(task: Any, order: int, amount: str = "1", faults: int = 0) -> int:
            attempt = task.idempotency.attempt
            self.seen.append((order, amount, attempt, task.idempotency.previous_attempt_died))
            if attempt <= faults:
                raise TransientError
            return order

        return self.define("plugin.charge", **{"key": "order", **options})(run)

    def define(self, name: str, **options: Any) -> Callable[[Callable[..., Any]], Any]:
        """Decorate another reserving task."""
        defaults = {"base": IdempotentTask, "bind": True, "reserve": True, "shared": False, "lazy": False}
        decorate: Callable[[Callable[..., Any]], Any] = self.app.task(**{**defaults, "name": name, **options})
        return decorate


@pytest.fixture(params=ALIASES)
def shop(request: pytest.FixtureRequest, settings: Settings) -> Iterator[Shop]:
    """An app whose broker is not there."""
    if request.param == "default":
        need_postgresql()
    settings.IDEMPOTENT_TASKS = {"DATABASE": request.param}
    shop = Shop(request.param)
    yield shop
    shop.app.close()


@pytest.mark.parametrize("mode", ["leased", "atomic"])
def test_reserved_calls_run_where_the_test_says_so(
    shop: Shop, idempotent_tasks: IdempotentTasks, mode: str
) -> None:
    charge = shop.task(mode=mode)
    first, second = charge.delay(1), charge.delay(order=2, amount="9.90")
    assert charge.delay(1).duplicate
    assert [call.task_id for call in idempotent_tasks.reserved(charge)] == [first.id, second.id]
    assert shop.seen == []
    assert idempotent_tasks.assert_reserved(charge, amount="9.90").task_id == second.id
    third = charge.delay(3, amount=("9", "90"))
    assert idempotent_tasks.assert_reserved(charge, amount=("9", "90")).task_id == third.id
    assert [result.get() for result in idempotent_tasks.drain()] == [1, 2, 3]
    assert idempotent_tasks.reserved() == []
    assert idempotent_tasks.drain() == []
    assert idempotent_tasks.assert_reserved(charge, order=1).state is State.SUCCEEDED


def test_what_was_not_reserved_is_named_beside_what_was(
    shop: Shop, idempotent_tasks: IdempotentTasks
) -> None:
    charge = shop.task()
    charge.delay(1)
    with pytest.raises(
        AssertionError, match=r"plugin.charge\(order=2\) was not.*Reserved: plugin.charge\(1\)"
    ):
        idempotent_tasks.assert_reserved(charge, order=2)
    with transaction.atomic(using=shop.alias):
        charge.delay(3)
        transaction.set_rollback(True, using=shop.alias)
    with pytest.raises(AssertionError):
        idempotent_tasks.assert_reserved(charge, order=3)


def test_a_body_s_own_calls_run_too_and_an_endless_chain_is_told_of(
    shop: Shop, idempotent_tasks: IdempotentTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    charge = shop.task()

    @shop.define("plugin.again")
    def again(_task: Any, number: int, last: int) -> None:
        charge.delay(number)
        if number < last:
            again.delay(number + 1, last)

    again.delay(1, 2)
    assert len(idempotent_tasks.drain()) == 4
    monkeypatch.setattr("django_idempotent_tasks.testing.project.MOST", 5)
    again.delay(3, 99)
    with pytest.raises(AssertionError, match="has run 5 calls"):
        idempotent_tasks.drain()


def test_a_message_that_comes_twice_is_answered_without_the_body(
    shop: Shop, idempotent_tasks: IdempotentTasks
) -> None:
    sent = shop.task().delay(1)
    idempotent_tasks.drain()
    assert idempotent_tasks.redeliver(sent).get() == 1
    assert len(shop.seen) == 1


@pytest.mark.parametrize("mode", ["leased", "atomic"])
def test_after_a_crash_the_next_attempt_knows_of_it(
    shop: Shop, idempotent_tasks: IdempotentTasks, mode: str
) -> None:
    submission = shop.task(mode=mode).submit((1,))
    idempotent_tasks.crash(submission)
    assert [result.get() for result in idempotent_tasks.drain()] == [1]
    assert shop.seen == [(1, "1", 2, True)]


def test_a_call_that_kills_its_workers_is_given_up(shop: Shop, idempotent_tasks: IdempotentTasks) -> None:
    sent = shop.task(max_crashes=2).delay(1)
    idempotent_tasks.crash(sent)
    idempotent_tasks.crash(sent)
    idempotent_tasks.advance(3600)
    idempotent_tasks.drain()
    call = idempotent_tasks.assert_reserved(shop.app.tasks["plugin.charge"])
    assert (call.state, shop.seen) == (State.FAILED, [])


def test_a_call_of_a_silent_process_is_taken_over(shop: Shop, idempotent_tasks: IdempotentTasks) -> None:
    sent = shop.task(lease=30).delay(1)
    idempotent_tasks.lose_lease(sent)
    assert [result.get() for result in idempotent_tasks.drain()] == [1]
    assert shop.seen[0][2:] == (2, True)


def test_an_attempt_that_was_overtaken_cannot_complete(shop: Shop, idempotent_tasks: IdempotentTasks) -> None:
    @shop.define("plugin.slow")
    def slow(self: Any, order: int) -> int:
        idempotent_tasks.lose_lease(self.request.id)
        with self.idempotency.complete():
            shop.seen.append(order)
        return order

    slow.delay(1)
    (result, *_rest) = idempotent_tasks.drain()
    assert isinstance(result.result, LeaseLost)


def test_a_time_that_lies_ahead_waits_until_it_has_come(
    shop: Shop, idempotent_tasks: IdempotentTasks
) -> None:
    charge = shop.task()
    charge.apply_async((1,), countdown=60)
    charge.apply_async((2,), countdown=3600)
    assert idempotent_tasks.drain() == []
    idempotent_tasks.advance(61)
    assert [result.get() for result in idempotent_tasks.drain()] == [1]
    idempotent_tasks.advance(3600)
    assert [result.get() for result in idempotent_tasks.drain()] == [2]


def test_a_key_is_free_again_once_its_retention_has_passed(
    shop: Shop, idempotent_tasks: IdempotentTasks
) -> None:
    charge = shop.task(retention=60)
    charge.delay(1)
    idempotent_tasks.drain()
    assert charge.delay(1).duplicate
    idempotent_tasks.advance(61)
    assert not charge.delay(1).duplicate


def test_a_call_that_follows_runs_after_the_one_before_it(
    shop: Shop, idempotent_tasks: IdempotentTasks
) -> None:
    asked: list[Any] = []

    @shop.define("plugin.sum", on_duplicate="follow_up")
    def total(_task: Any, product: int) -> None:
        shop.seen.append(product)
        if not asked:
            asked.append(total.delay(product))

    total.delay(7)
    idempotent_tasks.drain()
    assert shop.seen == [7, 7]


def test_in_eager_mode_the_calls_have_run_and_are_known(
    shop: Shop, idempotent_tasks: IdempotentTasks
) -> None:
    shop.app.conf.task_always_eager = True
    charge = shop.task(max_retries=2, default_retry_delay=0)
    sent = charge.delay(1, faults=1)
    assert idempotent_tasks.reserved() == []
    assert idempotent_tasks.drain() == []
    assert idempotent_tasks.assert_reserved(charge, order=1).state is State.SUCCEEDED
    idempotent_tasks.redeliver(sent)
    assert [attempt for _order, _amount, attempt, _died in shop.seen] == [1, 2]


@pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=["django_idempotent_tasks"])
def test_with_real_commits_no_message_leaves_the_process(
    shop: Shop, idempotent_tasks: IdempotentTasks
) -> None:
    charge = shop.task()
    charge.delay(1)
    charge.submit_many([{"args": (2,)}, {"args": (3,)}])
    assert sorted(result.get() for result in idempotent_tasks.drain()) == [1, 2, 3]


class TestInDjangosTestCase(TestCase):
    """The same in Django's own test case."""

    databases = {*ALIASES}

    @pytest.fixture(autouse=True)
    def _given(self, idempotent_tasks: IdempotentTasks) -> None:
        self.tasks = idempotent_tasks

    def test_callbacks_of_the_commit_may_be_captured(self) -> None:
        shop = Shop("default")
        with self.captureOnCommitCallbacks(execute=True) as callbacks:
            sent = shop.task().delay(1)
        assert callbacks
        assert [result.get() for result in self.tasks.drain()] == [1]
        assert sent.get() == 1
        shop.app.close()


def test_the_clock_and_the_relay_are_as_before_after_a_test(shop: Shop) -> None:
    from django_idempotent_tasks.ledger.stores import clock  # noqa: PLC0415
    from django_idempotent_tasks.messages.relay import relay  # noqa: PLC0415
    from django_idempotent_tasks.sending.reservation import Reservation  # noqa: PLC0415

    before = (vars(relay).copy(), Reservation.submit)
    with IdempotentTasks() as tasks:
        tasks.advance(60)
        shop.task().delay(1)
        assert clock.offset() == 60
    assert (clock.offset(), (vars(relay), Reservation.submit)) == (0, before)
    assert connections[shop.alias].run_on_commit


def test_loading_the_plugin_imports_neither_django_nor_celery() -> None:
    program = (
        "import sys, django_idempotent_tasks.pytest_plugin\n"
        "print([name for name in ('django', 'celery', 'kombu') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
