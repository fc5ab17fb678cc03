"""What is sent of a paused task: nothing, by the sender, by the sweeper, of many and of batches."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from django_idempotent_tasks.ledger import pauses as known
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.models import IdempotencyKey, Pause
from django_idempotent_tasks.operations import pauses
from tests.support.batches import APPS, Desk, desk, done, texts
from tests.support.post import Post, post, silent_broker

pytestmark = pytest.mark.django_db(transaction=True, databases=["default"], available_apps=APPS)
__all__ = ["desk", "post"]


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    known.forget()
    yield
    known._known.pauses = []


def paused(task: Any, **options: Any) -> Pause:
    """Pause a task, as a person does."""
    return pauses.pause(get_store(), task.name, by="ann", reason="the bank is down", **options)


def resume(row: Pause) -> None:
    """End the pause."""
    assert pauses.resume(get_store(), row, by="ann", rate=1000)


def test_a_reserved_call_waits_in_the_ledger_until_the_pause_is_over(post: Post) -> None:
    task = post.task()
    row = paused(task)
    with transaction.atomic():
        assert task.delay(7).duplicate is False
    task.delay(8)
    assert task.delay(7).duplicate is True
    post.sweep(after=400)
    assert (post.arrived(), {key.due_at for key in IdempotencyKey.objects.all()}) == ([], {row.held_at})
    resume(row)
    task.delay(9)
    assert [message["args"] for message in post.arrived()] == [[9]]
    post.sweep(after=0)
    assert sorted(message["args"] for message in post.arrived()) == [[7], [8]]


def test_calls_of_one_transaction_go_out_without_the_paused_ones_between_them(post: Post) -> None:
    other, task = post.task(name="shop.ship"), post.task()
    row = paused(task)
    with transaction.atomic():
        for number, each in enumerate((other, task, other, task)):
            each.delay(number)
    assert [message["args"] for message in post.arrived()] == [[0], [2]]
    post.sweep(after=0)
    held = [key.task_id for key in IdempotencyKey.objects.filter(due_at=row.held_at)]
    assert (post.arrived(), len(held)) == ([], 2)


def test_a_paused_call_asks_nothing_of_a_broker_that_is_silent(
    post: Post, caplog: pytest.LogCaptureFixture
) -> None:
    task = post.task()
    paused(task)
    with silent_broker(post):
        task.delay(7)
        with transaction.atomic():
            task.delay(8)
            task.delay(9)
    assert "the sweeper sends" not in caplog.text, "the broker was asked"
    assert {key.sends for key in IdempotencyKey.objects.all()} == {-1}


def test_of_many_calls_nothing_is_sent_either(post: Post) -> None:
    task = post.task()
    row = paused(task)
    assert [each.created for each in task.submit_many({"args": (number,)} for number in range(3))] == [
        True
    ] * 3
    assert post.arrived() == []
    post.sweep(after=0)
    assert post.arrived() == []
    resume(row)
    post.sweep(after=0)
    assert len(post.arrived()) == 3


def test_a_call_whose_eta_comes_in_the_pause_waits_and_one_after_it_keeps_its_time(post: Post) -> None:
    task = post.task()
    row = paused(task)
    soon, late = (task.apply_async((number,), countdown=wait) for number, wait in ((7, 400), (8, 7200)))
    post.sweep(after=800)
    keys = {key.task_id: key for key in IdempotencyKey.objects.all()}
    assert (keys[soon.id].due_at, post.arrived()) == (row.held_at, [])
    assert keys[late.id].due_at != row.held_at
    resume(row)
    post.sweep(after=800)
    assert [message["args"] for message in post.arrived()] == [[7]]


def test_the_chunks_of_a_batch_wait_and_it_goes_on_after_the_pause(desk: Desk) -> None:
    task = desk.registering()
    row = paused(task)
    batch = desk.submit(task, texts(10))
    desk.sweep(after=400)
    assert (desk.run(), done(), batch.refresh().state) == ([], [], "running")
    resume(row)
    desk.sweep(after=0)
    desk.run()
    assert (len(done()), batch.refresh().state, desk.finished) == (10, "finished", [str(batch.id)])


def test_a_plain_pause_of_one_scope_keeps_the_other_going(post: Post) -> None:
    def charge(order_id: int, tenant: str) -> int:  # noqa: ARG001
        return order_id

    task = post.task(charge, scope="tenant")
    paused(task, scope="acme")
    task.delay(7, "acme")
    task.delay(7, "globex")
    assert [message["args"] for message in post.arrived()] == [[7, "globex"]]
