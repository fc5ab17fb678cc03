"""A Django task's result comes from the ledger: state, errors, attempts, without a result backend."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.operations.dead_letters import redrive
from django_idempotent_tasks.states import State
from tests.backend.conftest import Place
from tests.sample import tasks_of_django as sample
from tests.support.deliveries import ALIASES, APPS
from tests.support.framework import (
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    task_backends,
    task_finished,
    task_started,
)
from tests.support.till import Counter

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (State.PENDING, "READY"),
        (State.RETRY, "READY"),
        (State.RUNNING, "RUNNING"),
        (State.SUCCEEDED, "SUCCESSFUL"),
        (State.FAILED, "FAILED"),
        (State.REVIEW, "FAILED"),
        (State.CANCELLED, "FAILED"),
    ],
)
def test_each_state_of_a_key_is_a_status(place: Place, shop: Counter, state: State, status: str) -> None:
    result = sample.receipt.enqueue(7)
    shop.put(state=state)
    result.refresh()
    assert result.status == status
    assert bool(place.sent)


def test_a_result_is_read_as_it_was_enqueued(place: Place) -> None:  # noqa: ARG001
    task = sample.receipt.using(priority=7, run_after=timezone.now())
    result = task.enqueue(7, to="x@y.example")
    assert sample.receipt.get_result(result.id) == result
    assert result.task == task


def test_a_success_has_its_value_and_its_times_and_no_arguments_any_more(place: Place) -> None:
    result = sample.receipt.enqueue(7)
    place.deliver()
    found = sample.receipt.get_result(result.id)
    assert found.return_value == {"order": 7, "to": "a@b.example"}
    assert found.enqueued_at is not None
    assert found.started_at is not None
    assert found.finished_at is not None
    assert found.enqueued_at <= found.started_at <= found.finished_at
    assert (found.attempts, found.errors, found.args, found.is_finished) == (1, [], [], True)


def test_a_coroutine_function_and_an_atomic_task_run_as_any_other(place: Place, shop: Counter) -> None:
    counted, booked = sample.count.enqueue("word"), sample.book.enqueue(3)
    place.deliver()
    place.deliver()
    value: Any = sample.count.get_result(counted.id).return_value
    assert value == 4
    assert sample.book.get_result(booked.id).return_value == 3
    assert len(shop.effects) == 2


@pytest.mark.parametrize(("error", "kind"), [("value", ValueError), ("exit", SystemExit)])
def test_a_failure_has_its_class_and_its_traceback_and_may_be_redriven(
    place: Place, shop: Counter, error: str, kind: type
) -> None:
    result = sample.failing.enqueue(error)
    place.deliver()
    result.refresh()
    assert str(result.status) == "FAILED"
    (found,) = result.errors
    assert found.exception_class is kind
    assert "it failed" in found.traceback
    assert "tasks_of_django.py" in found.traceback
    assert (result.args, result.attempts) == ([error], 1)
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value
    redrive(get_store(), shop.row, by="a person", reason="mended")
    result.refresh()
    assert result.status == TaskResultStatus.READY


def test_a_retried_task_is_ready_again_and_keeps_the_errors_of_its_attempts(place: Place) -> None:
    result = sample.charge.enqueue(7, "9.90", faults=1)
    assert place.deliver().is_retried
    result.refresh()
    assert (result.status, len(result.errors)) == (TaskResultStatus.READY, 1)
    assert result.errors[0].exception_class_path == "django_idempotent_tasks.exceptions.TransientError"
    place.deliver()
    result.refresh()
    assert (result.return_value, len(result.errors), result.attempts) == ("7: 9.90", 1, 2)


def test_a_task_learns_its_id_and_its_attempt(place: Place) -> None:
    result = sample.introduced.using(queue_name="mail").enqueue(faults=1)
    assert place.deliver().is_retried
    place.deliver()
    value = sample.introduced.get_result(result.id).return_value
    assert value == {"id": result.id, "attempt": 2, "queue": "mail"}


def test_a_value_that_is_no_json_fails_the_task_and_one_too_long_is_not_kept(place: Place) -> None:
    no_json, long = sample.returning.enqueue("set"), sample.returning.enqueue("long")
    place.deliver()
    place.deliver()
    no_json.refresh()
    long.refresh()
    assert (no_json.status, no_json.errors[0].exception_class) == (TaskResultStatus.FAILED, TypeError)
    assert (long.status, long.return_value) == (TaskResultStatus.SUCCESSFUL, None)


def test_a_cancelled_task_has_failed_with_the_error_of_a_revoked_one(place: Place) -> None:
    result = sample.receipt.enqueue(7)
    place.till.tasks[sample.receipt.module_path].cancel(task_id=result.id)  # type: ignore[attr-defined]
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert result.errors[0].exception_class.__name__ == "TaskRevokedError"


def test_a_call_whose_key_a_later_call_has_keeps_its_end(place: Place, shop: Counter) -> None:
    first = sample.charge.enqueue(7, "9.90")
    place.deliver()
    shop.put(open_at=shop.row.created_at, state=State.SUCCEEDED)
    second = sample.charge.enqueue(7, "9.90")
    assert second.id != first.id
    assert sample.charge.get_result(first.id).return_value == "7: 9.90"


def test_an_unknown_id_and_one_of_another_task_are_told_apart(place: Place, shop: Counter) -> None:
    result = sample.receipt.enqueue(7)
    with pytest.raises(TaskResultMismatch):
        sample.charge.get_result(result.id)
    for unknown in ("nobody", "", "x" * 1000, "\x00"):
        with pytest.raises(TaskResultDoesNotExist):
            sample.receipt.get_result(unknown)
    shop.put(task="os.system")  # a name in the ledger is no reason to import anything
    with pytest.raises(TaskResultDoesNotExist):
        task_backends["default"].get_result(result.id)
    assert bool(place.sent)


def test_signals_say_what_a_worker_does_with_a_task(place: Place) -> None:
    told: list[Any] = []

    def note(signal: Any, task_result: Any, **_kwargs: object) -> None:
        name = "started" if signal is task_started else "finished"
        told.append((name, str(task_result.status), task_result.attempts))

    for signal in (task_started, task_finished):
        signal.connect(note)
    try:
        sample.charge.enqueue(7, "9.90", faults=1)
        place.deliver()
        assert told == [("started", "RUNNING", 1)]  # it is tried again, so it has not finished
        place.deliver()
        sample.failing.enqueue("value")
        place.deliver()
    finally:
        for signal in (task_started, task_finished):
            signal.disconnect(note)
    assert told[1:] == [
        ("started", "RUNNING", 2),
        ("finished", "SUCCESSFUL", 2),
        ("started", "RUNNING", 1),
        ("finished", "FAILED", 1),
    ]
