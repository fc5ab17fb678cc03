"""Calls in all the ways that Django code makes them: hooks, savepoints, other databases, TestCases, eager."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connections, transaction
from django.db.transaction import TransactionManagementError
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory, TestCase, override_settings
from pydantic import BaseModel

from django_idempotent_tasks import DuplicateTask, KeyReused, OuterTransaction
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.sending.result import AcceptedResult
from django_idempotent_tasks.states import State
from tests.support.by_hand import ByHand, by_hand
from tests.support.post import Post, only_row, rolled_back

pytestmark = pytest.mark.django_db(
    transaction=True, databases=["default", "sqlite"], available_apps=["django_idempotent_tasks"]
)

CALLS: dict[str, Callable[[Any], Any]] = {
    "delay": lambda charge: charge.delay(7),
    "delay_on_commit": lambda charge: charge.delay_on_commit(7),
    "apply_async": lambda charge: charge.apply_async((7,)),
    "apply_async_on_commit": lambda charge: charge.apply_async_on_commit((7,)),
    "a signature": lambda charge: charge.s(7).delay(),
    "submit": lambda charge: charge.submit((7,)).result,
}
each_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@each_call
def test_every_way_to_call_returns_the_id_before_the_commit(post: Post, call: Callable[[Any], Any]) -> None:
    with transaction.atomic():
        result = call(post.task())
        assert post.arrived() == []
    (message,) = post.arrived()
    assert message["id"] == result.id
    assert isinstance(result, AcceptedResult)


@each_call
def test_every_way_to_call_says_that_it_is_a_duplicate(post: Post, call: Callable[[Any], Any]) -> None:
    charge = post.task()
    with transaction.atomic():
        first = charge.delay(7)
        second = call(charge)
    assert (second.id, second.duplicate) == (first.id, True)
    assert len(post.arrived()) == 1


@by_hand
def test_a_task_that_does_not_reserve_is_refused_where_no_commit_is_reported(
    post: Post, by_hand: ByHand
) -> None:
    with by_hand(), pytest.raises(TransactionManagementError, match=r"transaction\.atomic"):
        post.task(reserve=False).delay_on_commit(7)
    assert post.arrived() == []


def test_a_task_that_does_not_reserve_is_sent_by_the_hook_as_celery_does(post: Post) -> None:
    charge = post.task(reserve=False)
    with transaction.atomic():
        assert charge.delay_on_commit(7) is None
        assert charge.apply_async_on_commit((8,)) is None
        assert post.arrived() == []
    assert [message["args"] for message in post.arrived()] == [[7], [8]]


def test_a_view_that_raises_leaves_nothing_and_its_key_is_free(post: Post) -> None:
    charge = post.task()

    @transaction.atomic  # what ATOMIC_REQUESTS does
    def view(request: HttpRequest) -> HttpResponse:
        result = charge.delay(7)
        if "fail" in request.GET:
            raise LookupError
        return HttpResponse(result.id)

    with pytest.raises(LookupError):
        view(RequestFactory().get("/?fail"))
    assert (IdempotencyKey.objects.count(), post.arrived()) == (0, [])
    response = view(RequestFactory().get("/"))
    assert [message["id"] for message in post.arrived()] == [response.content.decode()]


def test_of_nested_savepoints_only_those_that_are_kept_send(post: Post) -> None:
    charge = post.task()
    with transaction.atomic():
        kept = [charge.delay(1).id]
        with transaction.atomic():
            kept.append(charge.delay(2).id)
            with rolled_back():
                charge.delay(3)
            kept.append(charge.delay(4).id)
    assert [message["id"] for message in post.arrived()] == kept
    assert IdempotencyKey.objects.count() == 3


def test_a_duplicate_whose_first_call_is_rolled_back_with_a_savepoint_can_be_made_again(post: Post) -> None:
    charge = post.task()
    with transaction.atomic():
        with rolled_back():
            charge.delay(7)
            assert charge.delay(7).duplicate
        assert not charge.delay(7).duplicate
    assert len(post.arrived()) == 1


def test_waiting_for_a_duplicate_of_the_same_transaction_raises_as_well(post: Post) -> None:
    charge = post.task()
    with transaction.atomic():
        charge.delay(7)
        with pytest.raises(OuterTransaction):
            charge.delay(7).get(timeout=1)


def test_waiting_for_a_far_call_inside_its_transaction_raises_as_well(post: Post) -> None:
    charge = post.task()
    with transaction.atomic(), pytest.raises(OuterTransaction):
        charge.apply_async((7,), countdown=3600).get(timeout=1)


def test_waiting_in_a_later_transaction_is_allowed(post: Post) -> None:
    charge = post.task()
    with transaction.atomic():
        result = charge.delay(7)
    post.work(charge)
    with transaction.atomic():
        assert result.get(timeout=5) == 7


@pytest.fixture
def _ledger_on_sqlite() -> Iterator[None]:
    with override_settings(IDEMPOTENT_TASKS={"DATABASE": "sqlite"}):
        yield


@pytest.mark.usefixtures("_ledger_on_sqlite")
def test_with_a_database_of_its_own_the_ledger_follows_that_ones_transaction(post: Post) -> None:
    charge = post.task()
    with transaction.atomic(using="sqlite"):
        kept = charge.delay(7)
        assert post.arrived() == []
    with rolled_back("sqlite"):
        charge.delay(8)
    assert [message["id"] for message in post.arrived()] == [kept.id]
    assert IdempotencyKey.objects.using("sqlite").count() == 1
    assert not IdempotencyKey.objects.using("default").exists()


@pytest.mark.usefixtures("_ledger_on_sqlite")
def test_a_transaction_of_another_database_holds_nothing_back(post: Post) -> None:
    charge = post.task()
    with rolled_back("default"):
        result = charge.delay(7)
        assert [message["id"] for message in post.arrived()] == [result.id]
    assert IdempotencyKey.objects.using("sqlite").get().task_id == result.id


def test_a_transaction_of_a_second_database_around_it_changes_nothing(post: Post) -> None:
    charge = post.task()
    with transaction.atomic(using="sqlite"), transaction.atomic():
        result = charge.delay(7)
    assert [message["id"] for message in post.arrived()] == [result.id]


def test_a_closed_connection_is_opened_for_a_call(post: Post) -> None:
    connections["default"].close()
    post.task().delay(7)
    assert len(post.arrived()) == 1


class Order(BaseModel):
    """What a pydantic task takes."""

    number: int


def test_a_pydantic_task_stores_and_sends_its_data(post: Post) -> None:
    def ship(order: Order) -> int:
        return order.number

    task = post.task(ship, pydantic=True, key="order")
    first = task.delay(Order(number=7))
    assert task.delay(order={"number": 7}).duplicate
    (message,) = post.arrived()
    assert message["args"] == [{"number": 7}]
    post.sweep()
    assert [result.get() for result in post.work(task)] == [7]
    assert first.get() == 7


def test_wrong_arguments_are_refused_before_a_row_is_written(post: Post) -> None:
    charge = post.task()
    with pytest.raises(TypeError):
        charge.delay(7, colour="red")
    assert not IdempotencyKey.objects.exists()


# -- in a user's TestCase --


def test_captured_hooks_send_inside_a_test_case(post: Post) -> None:
    charge = post.task()
    with transaction.atomic():  # a TestCase is in one
        with TestCase.captureOnCommitCallbacks() as callbacks:
            result = charge.delay(7)
        assert post.arrived() == []
        for callback in callbacks:
            callback()
        assert [message["id"] for message in post.arrived()] == [result.id]


# -- eagerly --


@pytest.fixture(params=[True, False], ids=["in a TestCase", "outside a transaction"])
def eager(post: Post, request: pytest.FixtureRequest) -> Iterator[Post]:
    """Tasks that run where they are called."""
    post.app.conf.task_always_eager = True
    if not request.param:
        yield post
        return
    with transaction.atomic():
        yield post


@each_call
def test_an_eager_call_runs_at_once_and_returns_the_same_kind_of_result(
    eager: Post, call: Callable[[Any], Any]
) -> None:
    charge = eager.task()
    result = call(charge)
    assert isinstance(result, AcceptedResult)
    assert (result.state, result.get(), result.duplicate) == ("SUCCESS", 7, False)
    row = only_row()
    assert (row.state, row.task_id, row.attempts) == (State.SUCCEEDED, result.id, 1)

    again = call(charge)
    assert (again.id, again.get(), again.duplicate) == (result.id, 7, True)
    assert only_row().attempts == 1
    assert eager.arrived() == []


def test_an_eager_duplicate_raises_in_the_caller_as_elsewhere(eager: Post) -> None:
    charge = eager.task(on_duplicate="raise")
    charge.apply_async((7,), idempotency_key="evt")
    with pytest.raises(DuplicateTask):
        charge.apply_async((7,), idempotency_key="evt")
    with pytest.raises(KeyReused):
        charge.apply_async((8,), idempotency_key="evt")


def test_an_eager_submission_says_what_it_says_elsewhere(eager: Post) -> None:
    charge = eager.task(reserve=False)
    first, second = charge.submit((7,)), charge.submit((7,))
    assert (first.created, second.created) == (True, False)
    assert (second.state, second.reason) == (State.SUCCEEDED, "already_completed")
    assert first.result is not None
    assert second.result is not None
    assert (second.result.id, second.result.get()) == (first.result.id, 7)


def test_an_eager_call_that_fails_has_its_own_error(eager: Post) -> None:
    def fail(order_id: int) -> None:
        raise LookupError(order_id)

    result = eager.task(fail).delay(7)
    assert only_row().state == State.FAILED
    with pytest.raises(LookupError):
        result.get()


def test_an_eager_call_does_not_wait_for_its_eta(eager: Post) -> None:
    assert eager.task().apply_async((7,), countdown=3600).get() == 7
