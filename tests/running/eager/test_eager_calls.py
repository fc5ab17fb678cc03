"""Eager tasks and direct calls: what users' own tests and scripts see, without a worker."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery, chain
from django.db import connection, transaction

from django_idempotent_tasks import (
    DuplicateTask,
    IdempotentTask,
    KeyReused,
    PermanentError,
    RecordedError,
    current,
)
from django_idempotent_tasks.models import DuplicateAttempt, IdempotencyKey
from django_idempotent_tasks.states import State
from tests.sample.models import Effect
from tests.support.post import only_row, rolled_back

pytestmark = pytest.mark.usefixtures("_twice")


class Busy(Exception):
    """Worth a retry."""


def write(task: Any, note: str = "") -> None:
    """One effect of the running attempt."""
    now = task.idempotency
    Effect.objects.create(key=now.key, attempt=now.attempt, token=now.token, note=note)


def test_a_call_runs_once_and_the_next_one_is_told_so(app: Celery) -> None:
    @app.task(base=IdempotentTask, bind=True, key="order")
    def charge(self: Any, order: int) -> dict[str, int]:
        write(self)
        return {"order": order}

    first = charge.delay(7)
    assert first.get() == {"order": 7}
    assert charge.delay(order=7).get() == {
        "status": "skipped",
        "reason": "already_completed",
        "key": "order=7",
        "task_id": first.id,
    }
    row = only_row()
    assert (row.state, row.attempts, row.task_id) == (State.SUCCEEDED, 1, first.id)
    assert Effect.objects.count() == DuplicateAttempt.objects.count() == 1


def test_apply_is_guarded_like_delay(app: Celery) -> None:
    @app.task(base=IdempotentTask, key="order", on_duplicate="replay")
    def charge(order: int) -> str:
        return f"{order}: {current.attempt}"

    assert charge.apply((7,)).get() == "7: 1"
    assert charge.apply((7,)).get() == "7: 1"
    assert charge.apply_async(kwargs={"order": 7}).get() == "7: 1"
    assert only_row().token == 1


def test_raise_answers_a_duplicate_by_an_error(app: Celery) -> None:
    @app.task(base=IdempotentTask, key="order", on_duplicate="raise")
    def charge(order: int) -> None:
        pass

    charge.delay(7)
    with pytest.raises(DuplicateTask) as caught:
        charge.delay(7).get()
    assert caught.value.reason == "already_completed"


def test_another_payload_under_a_stated_key_is_refused(app: Celery) -> None:
    @app.task(base=IdempotentTask)
    def charge(order: int) -> int:
        return order

    assert charge.apply_async((7,), idempotency_key="evt_1").get() == 7
    with pytest.raises(KeyReused):
        charge.apply_async((8,), idempotency_key="evt_1").get()
    assert charge.apply_async((8,), idempotency_key="evt_1", scope="other").get() == 8
    assert IdempotencyKey.objects.count() == 2


def test_two_retries_and_a_success_are_one_key_with_three_attempts(app: Celery) -> None:
    @app.task(base=IdempotentTask, bind=True, key="order", max_retries=3)
    def charge(self: Any, order: int) -> int:
        if self.request.retries < 2:
            raise self.retry(countdown=30)
        write(self)
        return order

    assert charge.delay(7).get() == 7
    row = only_row()
    assert (row.state, row.attempts, row.crashes) == (State.SUCCEEDED, 3, 0)
    assert Effect.objects.get().attempt == 3


def test_errors_that_celery_retries_are_attempts_of_one_key(app: Celery) -> None:
    @app.task(
        base=IdempotentTask, bind=True, key="order", autoretry_for=(Busy,), max_retries=3, retry_backoff=True
    )
    def charge(self: Any, order: int) -> int:
        if self.request.retries < 2:
            raise Busy
        return order

    assert charge.delay(7).get() == 7
    assert (only_row().state, only_row().attempts) == (State.SUCCEEDED, 3)


def test_retries_that_are_used_up_leave_a_failed_key(app: Celery) -> None:
    @app.task(base=IdempotentTask, key="order", autoretry_for=(Busy,), max_retries=2)
    def charge(order: int) -> None:
        raise Busy(order)

    with pytest.raises(Busy):
        charge.delay(7).get()
    assert (only_row().state, only_row().attempts) == (State.FAILED, 3)


def test_a_permanent_error_is_recorded_and_its_writes_are_undone_with_the_caller_unharmed(
    app: Celery,
) -> None:
    @app.task(base=IdempotentTask, bind=True, key="order", on_failed="block", on_duplicate="replay")
    def charge(self: Any, order: int) -> None:  # noqa: ARG001
        with transaction.atomic():
            write(self)
            raise PermanentError("card declined")

    with pytest.raises(PermanentError):
        charge.delay(7).get()
    with pytest.raises(RecordedError, match="card declined"):
        charge.delay(7).get()
    assert only_row().state == State.FAILED
    assert Effect.objects.count() == 0
    assert connection.is_usable()


def test_effects_inside_complete_happen_with_the_completion(app: Celery) -> None:
    @app.task(base=IdempotentTask, bind=True, key="order")
    def charge(self: Any, order: int) -> None:
        with self.idempotency.complete() as done:
            write(self)
            done.result = {"order": order}
        raise RuntimeError("after the completion, so it is only noted")

    assert charge.delay(7).get() == {"order": 7}
    assert only_row().state == State.SUCCEEDED
    assert Effect.objects.count() == 1


def test_complete_inside_a_transaction_of_the_body_is_refused_as_in_a_worker(app: Celery) -> None:
    """Its rollback would undo the completion, of which the attempt has heard."""

    @app.task(base=IdempotentTask, bind=True, key="order")
    def charge(self: Any, order: int) -> int:
        with rolled_back(), pytest.raises(RuntimeError), self.idempotency.complete():
            write(self)
        return order

    assert charge.delay(7).get() == 7
    assert only_row().state == State.SUCCEEDED
    assert Effect.objects.count() == 0


def test_a_guarded_task_may_call_another_and_each_sees_its_own_attempt(app: Celery) -> None:
    @app.task(base=IdempotentTask, bind=True, key="order")
    def notify(self: Any, order: int) -> str:  # noqa: ARG001
        return str(self.idempotency.key)

    @app.task(base=IdempotentTask, bind=True, key="name")
    def charge(self: Any, name: str) -> list[str]:  # noqa: ARG001
        inner = notify.delay(order=1).result
        plain = notify(2)
        return [inner, plain, self.idempotency.key]

    assert charge.delay("a").get() == ["order=1", "order=2", "name=a"]
    assert sorted(IdempotencyKey.objects.values_list("key_text", flat=True)) == ["name=a", "order=1"]


def test_a_task_that_calls_itself_for_other_work_runs_both(app: Celery) -> None:
    @app.task(base=IdempotentTask, bind=True, key="depth")
    def descend(self: Any, depth: int) -> int:
        below = self.delay(depth - 1).result if depth else 0
        return int(below) + 1

    assert descend.delay(3).get() == 4
    assert IdempotencyKey.objects.filter(state=State.SUCCEEDED).count() == 4


def test_a_task_that_calls_itself_for_the_same_work_is_a_duplicate_and_no_deadlock(app: Celery) -> None:
    @app.task(base=IdempotentTask, bind=True, key="order")
    def charge(self: Any, order: int) -> Any:
        return self.delay(order).result

    assert charge.delay(7).get()["reason"] == "in_progress"
    assert only_row().attempts == 1


def test_a_direct_call_is_a_plain_call(app: Celery) -> None:
    @app.task(base=IdempotentTask, bind=True, key="order")
    def charge(self: Any, order: int) -> int:  # noqa: ARG001
        with self.idempotency.complete():
            write(self)
        return int(self.idempotency.attempt)

    assert [charge(7), charge(order=7)] == [1, 1]
    assert IdempotencyKey.objects.count() == 0
    assert Effect.objects.count() == 2


def test_a_duplicate_in_a_chain_hands_its_recorded_value_on(app: Celery) -> None:
    @app.task(base=IdempotentTask, key="order", on_duplicate="replay")
    def price(order: int) -> int:
        return order * 10

    @app.task
    def double(number: int) -> int:
        return number * 2

    results = [chain(price.s(7), double.s()).apply().get() for _ in range(2)]
    assert results == [140, 140]
    assert only_row().token == 1


def test_the_result_of_a_reserved_duplicate_comes_from_the_ledger_and_warns_nobody(app: Celery) -> None:
    app.conf.update(result_backend="cache+memory://")

    @app.task(base=IdempotentTask, reserve=True)
    def double(number: int) -> int:
        return 2 * number

    assert [double.delay(4).get() for _ in range(2)] == [8, 8]
