"""A call is accepted with the caller's transaction, and refused where another has the work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.db.transaction import TransactionManagementError
from django.test import override_settings
from django.utils import timezone

from django_idempotent_tasks import DuplicateTask, KeyReused, OuterTransaction
from django_idempotent_tasks.models import DuplicateAttempt, IdempotencyKey
from django_idempotent_tasks.states import State
from tests.support.post import Post, no_broker, rolled_back

pytestmark = pytest.mark.django_db(
    transaction=True, databases=["default", "sqlite"], available_apps=["django_idempotent_tasks"]
)


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


@pytest.mark.parametrize("wait", ["get", "wait"])
def test_waiting_inside_the_transaction_that_reserved_raises_instead_of_hanging(
    post: Post, wait: str
) -> None:
    charge = post.task()
    with transaction.atomic():
        result = charge.delay(7)
        with pytest.raises(OuterTransaction):
            getattr(result, wait)(timeout=1)


# -- the same task id again --

ENDS = {
    State.PENDING: "in_progress",
    State.RUNNING: "in_progress",
    State.RETRY: "in_progress",
    State.SUCCEEDED: "already_completed",
    State.FAILED: "failed",
    State.REVIEW: "in_review",
    State.CANCELLED: "cancelled",
}


@pytest.mark.parametrize("on_duplicate", ["skip", "replay", "raise"])
@pytest.mark.parametrize("state", State)
def test_the_same_task_id_sent_again_gets_its_result_and_is_no_duplicate(
    post: Post, on_duplicate: str, state: State
) -> None:
    charge = post.task(on_duplicate=on_duplicate)
    charge.apply_async((7,), task_id="z")
    post.arrived()
    IdempotencyKey.objects.update(state=state)
    again = charge.apply_async((7,), task_id="z")
    assert (again.id, again.duplicate) == ("z", False)
    assert post.arrived() == []
    assert not DuplicateAttempt.objects.exists()


@pytest.mark.parametrize("state", State)
def test_submit_says_where_a_call_stands_that_is_sent_again(post: Post, state: State) -> None:
    charge = post.task()
    charge.submit((7,), task_id="z")
    IdempotencyKey.objects.update(state=state)
    again = charge.submit((7,), task_id="z")
    assert (again.created, again.state, again.reason) == (False, state, ENDS[state])
    assert (again.result.id, again.result.duplicate) == ("z", False)
    assert not DuplicateAttempt.objects.exists()


def test_a_replaced_call_that_is_sent_again_hears_how_it_ended(post: Post) -> None:
    charge = post.task()
    charge.submit((7,), task_id="z")
    charge.cancel(task_id="z")
    charge.delay(7)
    again = charge.submit((7,), task_id="z")
    assert (again.created, again.state, again.reason) == (False, State.CANCELLED, "cancelled")
    assert again.result.state == "REVOKED"


# -- a key whose owner is gone, and with it the message --


@pytest.fixture(params=["default", "sqlite"])
def ledger(request: pytest.FixtureRequest) -> Iterator[str]:
    """The alias of the ledger."""
    with override_settings(IDEMPOTENT_TASKS={"DATABASE": request.param}):
        yield request.param


def abandon(ledger: str, state: State) -> None:
    """Let the key's owner vanish, with nothing stored that could be sent."""
    past = timezone.now() - timedelta(seconds=1)
    keys = IdempotencyKey.objects.using(ledger)
    assert keys.update(state=state, message=None, open_at=past, due_at=past, owner="gone") == 1


each_loss = pytest.mark.parametrize("state", [State.RETRY, State.RUNNING])


@each_loss
@pytest.mark.parametrize("call", [lambda task: task.delay(7), lambda task: task.submit((7,)).result])
def test_an_abandoned_key_gets_the_message_of_the_call_that_finds_it(
    post: Post, ledger: str, state: State, call: Any
) -> None:
    charge = post.task()
    charge.delay(7)
    post.arrived()
    abandon(ledger, state)
    with transaction.atomic(using=ledger):
        second = call(charge)
        assert (second.duplicate, post.arrived()) == (False, [])
    assert [result.get() for result in post.work(charge)] == [7]
    row = IdempotencyKey.objects.using(ledger).get()
    assert (row.state, row.crashes) == (State.SUCCEEDED, int(state == State.RUNNING))
    assert second.get(timeout=5) == 7


@each_loss
def test_a_call_that_finds_an_abandoned_key_is_not_lost_with_the_broker(
    post: Post, ledger: str, state: State
) -> None:
    charge = post.task()
    charge.delay(7)
    post.arrived()
    abandon(ledger, state)
    with no_broker(post):
        second = charge.delay(7)
        assert charge.delay(7).duplicate, "it is accepted"
    post.sweep(after=1)
    assert [message["id"] for message in post.arrived()] == [second.id]


def test_a_call_that_found_an_abandoned_key_is_no_duplicate_of_itself(post: Post, ledger: str) -> None:
    charge = post.task(on_duplicate="raise")
    charge.delay(7)
    abandon(ledger, State.RETRY)
    charge.apply_async((7,), task_id="z")
    again = charge.submit((7,), task_id="z")
    assert (again.created, again.reason, again.result.id) == (False, "in_progress", "z")
    assert not charge.apply_async((7,), task_id="z").duplicate


def test_an_abandoned_key_is_left_as_it_was_by_a_rollback(post: Post, ledger: str) -> None:
    charge = post.task()
    charge.delay(7)
    post.arrived()
    abandon(ledger, State.RETRY)
    with rolled_back(ledger):
        charge.delay(7)
    row = IdempotencyKey.objects.using(ledger).get()
    assert (row.state, row.message, row.runner_task_id) == (State.RETRY, None, None)
    assert post.arrived() == []


def test_a_far_call_that_finds_an_abandoned_key_waits_in_the_ledger(post: Post, ledger: str) -> None:
    charge = post.task()
    charge.delay(7)
    post.arrived()
    abandon(ledger, State.RETRY)
    second = charge.apply_async((7,), countdown=3600)
    post.sweep(after=3000)
    assert post.arrived() == []
    post.sweep(after=3601)
    assert [message["id"] for message in post.arrived()] == [second.id]


def test_of_two_open_transactions_that_find_an_abandoned_key_one_has_it(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_idempotent_tasks.ledger.reserving.LONGEST_HOLD", 0.0)
    charge = post.task()
    charge.delay(7)
    post.arrived()
    abandon("default", State.RETRY)
    other: list[bool] = []

    def submit() -> None:
        other.append(charge.submit((7,)).created)
        connection.close()

    with transaction.atomic():
        assert charge.submit((7,)).created
        second = threading.Thread(target=submit)
        second.start()
        second.join(20)
        assert other == [False], "it neither waits for this transaction nor takes the key as well"
    assert len(post.arrived()) == 1


# -- no commit to wait for --


@pytest.mark.parametrize("call", [lambda task: task.delay(7), lambda task: task.submit((7,))])
def test_in_manual_transaction_management_nothing_is_written_before_the_error(
    post: Post, ledger: str, call: Any
) -> None:
    charge = post.task()
    transaction.set_autocommit(False, using=ledger)
    try:
        with pytest.raises(TransactionManagementError, match=r"transaction\.atomic"):
            call(charge)
        transaction.commit(using=ledger)
    finally:
        transaction.set_autocommit(True, using=ledger)
    assert not IdempotencyKey.objects.using(ledger).exists()
    assert post.arrived() == []


def test_nor_in_a_transaction_that_was_begun_by_hand(post: Post, ledger: str) -> None:
    charge = post.task()
    with connections[ledger].cursor() as cursor:
        cursor.execute("BEGIN")
        try:
            with pytest.raises(TransactionManagementError, match=r"transaction\.atomic"):
                charge.delay(7)
        finally:
            cursor.execute("ROLLBACK")
    assert post.arrived() == []
