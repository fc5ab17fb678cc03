"""A call is accepted with the caller's transaction, and refused where another has the work."""

from __future__ import annotations

import pytest
from django.db import transaction

from django_idempotent_tasks import DuplicateTask, KeyReused, OuterTransaction
from django_idempotent_tasks.models import DuplicateAttempt, IdempotencyKey
from django_idempotent_tasks.states import State
from tests.sending.conftest import Post, rolled_back

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"])


def test_the_row_is_written_at_once_and_the_message_goes_out_after_the_commit(post: Post) -> None:
    charge = post.task()
    with transaction.atomic():
        result = charge.delay(7, "9.90")
        row = IdempotencyKey.objects.get()
        assert (row.state, row.task_id, row.attempts) == (State.PENDING, result.id, 0)
        assert post.arrived() == []
    (message,) = post.arrived()
    assert (message["id"], message["args"]) == (result.id, [7, "9.90"])
    assert message["idempotency"]["reserved"] is True


def test_a_rollback_leaves_neither_row_nor_message(post: Post) -> None:
    charge = post.task()
    with rolled_back():
        charge.delay(7)
    assert not IdempotencyKey.objects.exists()
    assert post.arrived() == []
    assert not charge.delay(7).duplicate


def test_a_savepoint_that_is_rolled_back_takes_its_reservation_with_it(post: Post) -> None:
    charge = post.task()
    with transaction.atomic():
        with rolled_back():
            charge.delay(7)
        kept = charge.delay(8)
        again = charge.delay(7)
    assert {message["id"] for message in post.arrived()} == {kept.id, again.id}


def test_a_duplicate_gets_the_accepted_calls_result_and_sends_nothing(post: Post) -> None:
    charge = post.task()
    first = charge.delay(7)
    post.arrived()
    second = charge.delay(order_id=7)
    assert second.id == first.id
    assert second.duplicate
    assert not first.duplicate
    assert post.arrived() == []
    attempt = DuplicateAttempt.objects.get()
    assert (attempt.place, attempt.reason) == ("send", "in_progress")


def test_a_duplicate_raises_where_the_task_says_so(post: Post) -> None:
    charge = post.task(on_duplicate="raise")
    first = charge.delay(7)
    with pytest.raises(DuplicateTask) as caught:
        charge.delay(7)
    assert caught.value.task_id == first.id


def test_submit_says_who_has_the_work_and_never_raises_for_a_duplicate(post: Post) -> None:
    charge = post.task(on_duplicate="raise", reserve=False)
    first = charge.submit(kwargs={"order_id": 7})
    second = charge.submit((7,))
    assert (first.created, second.created) == (True, False)
    assert second.result.id == first.result.id
    assert (second.state, second.reason) == (State.PENDING, "in_progress")
    assert len(post.arrived()) == 1


def test_another_payload_under_the_key_is_refused_in_the_caller(post: Post) -> None:
    charge = post.task()
    charge.apply_async((7, "9.90"), idempotency_key="evt_1")
    with pytest.raises(KeyReused):
        charge.apply_async((7, "9.91"), idempotency_key="evt_1")


def test_waiting_inside_the_transaction_that_reserved_raises_instead_of_hanging(post: Post) -> None:
    charge = post.task()
    with transaction.atomic():
        result = charge.delay(7)
        with pytest.raises(OuterTransaction):
            result.get(timeout=1)
