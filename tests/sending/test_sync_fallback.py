"""``SYNC_FALLBACK``: the caller runs its calls under the same keys while the broker is out for good."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery import chain
from django.db import transaction
from django.test import override_settings

from django_idempotent_tasks.checks import check_settings
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.support.post import Post, only_row, rolled_back

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"])

is_out = True


def broker_is_out() -> bool:
    return is_out


@pytest.fixture(params=[True, broker_is_out, f"{__name__}.broker_is_out"], ids=["True", "callable", "path"])
def post(post: Post, request: pytest.FixtureRequest) -> Iterator[Post]:
    """A caller that runs what it sends."""
    with override_settings(IDEMPOTENT_TASKS={"SYNC_FALLBACK": request.param}):
        yield post


only_once = pytest.mark.parametrize("post", [True], indirect=True, ids=["True"])
by_callable = pytest.mark.parametrize("post", [broker_is_out], indirect=True, ids=["callable"])


@pytest.mark.parametrize("reserve", [True, False])
def test_a_call_runs_in_the_caller_after_the_commit(post: Post, reserve: bool) -> None:
    charge = post.task(reserve=reserve)
    with transaction.atomic():
        result = charge.delay(7)
        assert only_row().state == State.PENDING
    assert (result.state, result.get()) == ("SUCCESS", 7)
    row = only_row()
    assert (row.state, row.task_id, row.attempts) == (State.SUCCEEDED, result.id, 1)
    assert post.arrived() == []


@only_once
def test_a_rollback_runs_nothing(post: Post) -> None:
    ran: list[int] = []
    charge = post.task(noting(ran))
    with rolled_back():
        charge.delay(7)
    assert (ran, IdempotencyKey.objects.count()) == ([], 0)


def noting(ran: list[int]) -> Any:
    def note(order_id: int) -> int:
        ran.append(order_id)
        return order_id

    return note


@only_once
def test_a_duplicate_runs_nothing(post: Post) -> None:
    ran: list[int] = []
    charge = post.task(noting(ran))
    charge.delay(7)
    assert charge.delay(7).duplicate
    assert ran == [7]


@only_once
def test_a_body_that_fails_in_the_caller_is_a_dead_letter_and_no_error_of_the_caller(post: Post) -> None:
    def fail(order_id: int) -> None:
        raise LookupError(order_id)

    result = post.task(fail).delay(7)
    assert (result.state, only_row().state) == ("FAILURE", State.FAILED)


@only_once
def test_an_eta_is_not_waited_for_but_a_far_one_stays_in_the_ledger(post: Post) -> None:
    ran: list[int] = []
    charge = post.task(noting(ran))
    charge.apply_async((7,), countdown=60)
    charge.apply_async((8,), countdown=3600)
    assert ran == [7]
    assert IdempotencyKey.objects.get(key_text="order_id=8").state == State.PENDING


@only_once
def test_a_canvas_is_left_to_the_broker_so_that_what_follows_is_not_lost(post: Post) -> None:
    ran: list[int] = []
    charge = post.task(noting(ran))
    chain(charge.si(1), charge.si(2)).apply_async()
    assert ran == []
    (message,) = post.arrived()
    assert message["embed"]["chain"][0]["args"] == [2]


@only_once
def test_a_task_with_sensitive_arguments_is_sent_as_ever(post: Post) -> None:
    def pay(order_id: int, card: str) -> None:
        """Not run here."""

    post.task(pay, reserve=False, sensitive=("card",)).delay(7, "4111")
    assert len(post.arrived()) == 1
    assert not IdempotencyKey.objects.exists()


@by_callable
def test_going_there_and_back_loses_and_doubles_nothing(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []
    charge = post.task(noting(ran))
    monkeypatch.setattr(f"{__name__}.is_out", False)
    queued = charge.delay(1)
    assert ran == []

    monkeypatch.setattr(f"{__name__}.is_out", True)
    assert charge.delay(1).duplicate, "it waits with the broker"
    here = charge.delay(2)
    assert ran == [2]

    monkeypatch.setattr(f"{__name__}.is_out", False)
    assert charge.delay(2).duplicate
    charge.delay(3)
    post.work(charge)
    post.sweep(after=7200)
    post.work(charge)
    assert sorted(ran) == [1, 2, 3]
    assert (queued.get(), here.get()) == (1, 2)
    rows = IdempotencyKey.objects.values_list("state", "attempts")
    assert set(rows) == {(State.SUCCEEDED, 1)}


@only_once
def test_what_a_caller_left_behind_when_it_died_is_sent_to_a_worker(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    charge = post.task()
    monkeypatch.setattr("django_idempotent_tasks.sending.reservation.run_here", lambda *_: None)
    result = charge.delay(7)  # and here the caller dies
    post.sweep()
    assert [message["id"] for message in post.arrived()] == [result.id]


@pytest.mark.parametrize("value", ["no.such.module", "nodots", 1, None, "django.conf.ENVIRONMENT_VARIABLE"])
def test_a_bad_value_is_reported_by_the_check(value: object) -> None:
    with override_settings(IDEMPOTENT_TASKS={"SYNC_FALLBACK": value}):
        (found,) = check_settings()
    assert found.id == "django_idempotent_tasks.E002"
    assert "SYNC_FALLBACK" in found.msg
