"""``cancel`` finds work by call or by key, ends what has not ended, and tells what it found."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection, transaction

from django_idempotent_tasks import InvalidKey
from django_idempotent_tasks.models import AnsweredCall, IdempotencyKey
from django_idempotent_tasks.operations import cancel as cancelling
from django_idempotent_tasks.states import State
from tests.support.post import Post, only_row, rolled_back
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"])


def by_call(charge: Any, task_id: str) -> str:
    return str(charge.cancel(task_id=task_id))


def by_key(charge: Any, _task_id: str) -> str:
    return str(charge.cancel(idempotency_key="evt", scope="tenant"))


def by_both(charge: Any, task_id: str) -> str:
    return str(charge.cancel(task_id=task_id, idempotency_key="evt", scope="tenant"))


each_way = pytest.mark.parametrize("cancel", [by_call, by_key, by_both])


def send(charge: Any) -> str:
    return str(charge.apply_async((7,), idempotency_key="evt", scope="tenant").id)


@each_way
@pytest.mark.parametrize("state", [State.PENDING, State.RETRY, State.RUNNING])
def test_work_that_has_not_ended_is_cancelled(post: Post, cancel: Any, state: State) -> None:
    charge = post.task()
    task_id = send(charge)
    IdempotencyKey.objects.update(state=state)
    assert cancel(charge, task_id) == "cancelled"
    row = only_row()
    assert (row.state, row.message, row.token) == (State.CANCELLED, None, 1)
    assert cancel(charge, task_id) == "cancelled"


@each_way
@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED, State.REVIEW])
def test_work_that_has_ended_is_finished(post: Post, cancel: Any, state: State) -> None:
    charge = post.task()
    task_id = send(charge)
    IdempotencyKey.objects.update(state=state)
    assert cancel(charge, task_id) == "finished"
    assert only_row().state == state


def test_what_was_never_accepted_is_not_found(post: Post) -> None:
    charge, other = post.task(), post.task(name="shop.other")
    task_id = send(charge)
    assert charge.cancel(task_id="another") == "not_found"
    assert charge.cancel(idempotency_key="another", scope="tenant") == "not_found"
    assert charge.cancel(idempotency_key="evt") == "not_found", "of no tenant"
    assert charge.cancel(idempotency_key="evt", scope="other") == "not_found"
    assert charge.cancel(task_id="another", idempotency_key="evt", scope="tenant") == "not_found"
    assert other.cancel(task_id=task_id) == "not_found"
    assert only_row().state == State.PENDING


def test_it_must_be_said_what_to_cancel(post: Post) -> None:
    charge = post.task()
    with pytest.raises(TypeError):
        charge.cancel()
    with pytest.raises(TypeError):
        charge.cancel(idempotency_key=None)
    with pytest.raises(InvalidKey):
        charge.cancel(idempotency_key="")


def test_a_call_without_a_stated_key_is_found_by_its_id_with_none_for_the_key(post: Post) -> None:
    charge = post.task()
    assert charge.cancel(task_id=charge.delay(7).id, idempotency_key=None) == "cancelled"


@pytest.mark.parametrize("task_id", ["a\0b", "\ud800", 5, "x" * 256], ids=ascii)
def test_what_can_be_no_task_id_is_refused(post: Post, task_id: Any) -> None:
    with pytest.raises(InvalidKey, match="task id"):
        post.task().cancel(task_id=task_id)


def test_in_manual_transaction_management_a_call_can_be_cancelled(post: Post) -> None:
    charge = post.task()
    task_id = send(charge)
    transaction.set_autocommit(False)
    try:
        assert charge.cancel(task_id=task_id, terminate=True) == "cancelled"
        transaction.commit()
    finally:
        transaction.set_autocommit(True)
    assert only_row().state == State.CANCELLED


@contextmanager
def held_row() -> Iterator[threading.Event]:
    """The row locked by another transaction, until the event is set."""
    locked, release = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            list(IdempotencyKey.objects.select_for_update())
            locked.set()
            release.wait(PATIENCE)
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    assert locked.wait(PATIENCE)
    yield release
    release.set()
    holder.join()


def test_a_row_that_a_completion_holds_is_finishing(post: Post) -> None:
    charge = post.task()
    task_id = send(charge)
    with held_row():
        assert by_call(charge, task_id) == "finishing"
    assert only_row().state == State.PENDING


def test_a_row_that_is_held_for_a_moment_is_cancelled(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    charge = post.task()
    task_id = send(charge)
    with held_row() as release:

        def pause(_seconds: float) -> None:
            release.set()
            eventually(lambda: not is_locked(), "the other transaction has ended")

        # Not time.sleep itself, by which others wait meanwhile, this pause among them.
        monkeypatch.setattr(cancelling, "time", SimpleNamespace(sleep=pause))
        assert by_call(charge, task_id) == "cancelled"


def is_locked() -> bool:
    with transaction.atomic():
        return not IdempotencyKey.objects.select_for_update(skip_locked=True).exists()


def test_a_cancellation_that_is_rolled_back_has_not_happened(post: Post) -> None:
    charge = post.task()
    task_id = send(charge)
    with rolled_back():
        assert by_call(charge, task_id) == "cancelled"
    assert only_row().state == State.PENDING
    assert [result.get() for result in post.work(charge)] == [7]


def test_a_call_can_be_cancelled_in_the_transaction_that_makes_it(post: Post) -> None:
    charge = post.task()
    with transaction.atomic():
        task_id = send(charge)
        assert by_call(charge, task_id) == "cancelled"
    post.work(charge)
    assert (only_row().state, only_row().attempts) == (State.CANCELLED, 0)


def test_after_a_cancellation_the_key_is_free_and_the_old_copy_does_not_run(post: Post) -> None:
    charge = post.task()
    first = send(charge)
    by_call(charge, first)
    second = charge.apply_async((7,), idempotency_key="evt", scope="tenant")
    assert not second.duplicate
    assert second.id != first

    post.work(charge)  # the old copy first, as it was queued
    row = only_row()
    assert (row.state, row.task_id, row.attempts) == (State.SUCCEEDED, second.id, 1)
    assert AnsweredCall.objects.get(task_id=first).state == State.CANCELLED
    assert charge.AsyncResult(first).id == first


def test_a_replaced_call_that_was_cancelled_stays_cancelled(post: Post) -> None:
    charge = post.task()
    first = send(charge)
    by_call(charge, first)
    send(charge)
    assert by_call(charge, first) == "cancelled"
    assert by_both(charge, first) == "cancelled"
    assert only_row().state == State.PENDING, "it is the later call's"


def test_a_replaced_call_that_had_ended_is_finished(post: Post) -> None:
    charge = post.task(retention=0)
    first = send(charge)
    post.work(charge)
    send(charge)
    assert by_call(charge, first) == "finished"
    assert only_row().state == State.PENDING


def test_the_call_that_took_over_can_be_cancelled_by_its_own_id(post: Post) -> None:
    charge = post.task()
    send(charge)
    IdempotencyKey.objects.update(state=State.RUNNING, runner_task_id="successor")
    assert charge.cancel(task_id="successor") == "cancelled"
    assert only_row().state == State.CANCELLED


def test_a_cancelled_call_is_not_sent_again(post: Post) -> None:
    charge = post.task()
    by_call(charge, send(charge))
    post.arrived()
    post.sweep(after=7200)
    assert post.arrived() == []


@pytest.fixture
def told(post: Post, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What workers are told to terminate."""
    heard: list[Any] = []
    monkeypatch.setattr(
        post.app.control, "revoke", lambda ids, **options: heard.append((sorted(ids), options))
    )
    return heard


def test_terminate_interrupts_whoever_runs_it(post: Post, told: list[Any]) -> None:
    charge = post.task()
    task_id = send(charge)
    IdempotencyKey.objects.update(state=State.RUNNING, runner_task_id="successor")
    assert charge.cancel(task_id=task_id, terminate=True) == "cancelled"
    assert told == [(sorted([task_id, "successor"]), {"terminate": True})]


def test_terminate_waits_for_the_commit(post: Post, told: list[Any]) -> None:
    charge = post.task()
    task_id = send(charge)
    with rolled_back():
        charge.cancel(task_id=task_id, terminate=True)
    assert told == []
    with transaction.atomic():
        charge.cancel(task_id=task_id, terminate=True)
        assert told == []
    assert len(told) == 1


def test_nobody_is_interrupted_without_terminate_or_when_it_has_ended(post: Post, told: list[Any]) -> None:
    charge = post.task()
    task_id = send(charge)
    by_call(charge, task_id)
    IdempotencyKey.objects.update(state=State.SUCCEEDED)
    assert charge.cancel(task_id=task_id, terminate=True) == "finished"
    assert told == []


def test_a_broker_that_is_down_neither_fails_nor_delays_a_termination(post: Post) -> None:
    charge = post.task()
    task_id = send(charge)
    post.app.conf.broker_write_url = "redis://127.0.0.1:9/0"
    assert charge.cancel(task_id=task_id, terminate=True) == "cancelled"
    assert only_row().state == State.CANCELLED


def test_a_result_that_is_revoked_cancels_its_call(post: Post) -> None:
    charge = post.task()
    result = charge.delay(7)
    result.revoke()
    assert (result.state, only_row().state) == ("REVOKED", State.CANCELLED)


def test_revoking_leaves_a_body_that_runs(post: Post) -> None:
    result = post.task().delay(7)
    IdempotencyKey.objects.update(state=State.RUNNING)
    result.revoke()
    assert only_row().state == State.RUNNING
