"""Eager atomic tasks: a savepoint in the caller's transaction, or a transaction of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery, chain
from django.db import IntegrityError, connection, transaction

from django_idempotent_tasks import (
    DuplicateTask,
    IdempotentTask,
    PermanentError,
    RecordedError,
    TaskExit,
    TransientError,
)
from django_idempotent_tasks.models import DuplicateAttempt, IdempotencyKey
from django_idempotent_tasks.states import Reason, State
from tests.sample.models import Effect
from tests.support.post import only_row

pytestmark = pytest.mark.usefixtures("_twice")


def atomic(app: Celery, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate an atomic task."""
    decorate: Callable[[Callable[..., Any]], Any] = app.task(
        base=IdempotentTask, bind=True, mode="atomic", key="order", **options
    )
    return decorate


def write(task: Any, note: str = "") -> None:
    """One effect of the running attempt."""
    now = task.idempotency
    Effect.objects.create(key=now.key, attempt=now.attempt, token=now.token, note=note)


def notes() -> list[str]:
    """What is written."""
    return list(Effect.objects.order_by("id").values_list("note", flat=True))


def test_a_call_runs_once_and_the_next_one_is_told_so(app: Celery) -> None:
    @atomic(app)
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
    assert (row.state, row.attempts, row.task_id, row.message) == (State.SUCCEEDED, 1, first.id, None)
    assert Effect.objects.count() == DuplicateAttempt.objects.count() == 1


def test_duplicates_are_answered_as_the_task_says(app: Celery) -> None:
    @atomic(app, name="replay", on_duplicate="replay")
    def replay(self: Any, order: int) -> int:  # noqa: ARG001
        return order

    @atomic(app, name="raise", on_duplicate="raise")
    def refuse(self: Any, order: int) -> int:  # noqa: ARG001
        return order

    assert [replay.delay(7).get(), replay.delay(7).get()] == [7, 7]
    refuse.delay(7)
    with pytest.raises(DuplicateTask):
        refuse.delay(7).get()


@pytest.mark.parametrize(
    ("error", "seen", "reason"),
    [
        (ValueError("no"), ValueError, Reason.RETRIES_USED_UP),
        (PermanentError("no"), PermanentError, Reason.PERMANENT),
        (SystemExit(3), TaskExit, Reason.RETRIES_USED_UP),
    ],
    ids=["error", "permanent", "exit"],
)
def test_an_error_is_recorded_and_undone_with_the_caller_unharmed(
    app: Celery, error: BaseException, seen: type[Exception], reason: Reason
) -> None:
    @atomic(app, on_failed="block", on_duplicate="replay")
    def charge(self: Any, order: int) -> None:  # noqa: ARG001
        write(self)
        raise error

    Effect.objects.create(key="caller's", attempt=0, token=0, note="caller's")
    with pytest.raises(seen):
        charge.delay(7).get()
    with pytest.raises(RecordedError, match=r"no|exit"):
        charge.delay(7).get()
    assert (only_row().state, only_row().reason) == (State.FAILED, reason)
    assert notes() == ["caller's"]


def test_an_error_of_the_database_leaves_the_callers_transaction_usable(app: Celery) -> None:
    @atomic(app)
    def charge(self: Any, order: int) -> None:  # noqa: ARG001
        write(self)
        Effect.objects.create(id=Effect.objects.get().pk, key="twice", attempt=1, token=1)

    with pytest.raises(IntegrityError):
        charge.delay(7).get()
    assert (only_row().state, notes()) == (State.FAILED, [])
    assert connection.is_usable()


def test_two_retries_and_a_success_are_one_key_with_one_effect(app: Celery) -> None:
    @atomic(app, max_retries=3)
    def charge(self: Any, order: int) -> int:
        write(self, f"attempt {self.idempotency.attempt}")
        if self.request.retries == 0:
            raise self.retry(countdown=30)
        if self.request.retries == 1:
            raise TransientError("later")
        return order

    assert charge.delay(7).get() == 7
    row = only_row()
    assert (row.state, row.attempts, row.crashes) == (State.SUCCEEDED, 3, 0)
    assert notes() == ["attempt 3"]


def test_complete_is_refused(app: Celery) -> None:
    @atomic(app)
    def charge(self: Any, order: int) -> None:  # noqa: ARG001
        with self.idempotency.complete():
            write(self)

    with pytest.raises(RuntimeError, match="return the result"):
        charge.delay(7).get()
    assert notes() == []


def test_an_atomic_task_that_runs_inside_another_is_part_of_it(app: Celery) -> None:
    @atomic(app, name="inner")
    def inner(self: Any, order: int) -> int:
        write(self, "inner")
        return order

    @atomic(app, name="outer")
    def outer(self: Any, order: int) -> int:
        write(self, "outer")
        inner.delay(order)
        if order == 8:
            raise ValueError("after the inner one")
        return order

    assert outer.delay(7).get() == 7
    assert notes() == ["outer", "inner"]
    with pytest.raises(ValueError, match="after the inner one"):
        outer.delay(8).get()
    assert notes() == ["outer", "inner"]
    states = {row.task: State(row.state) for row in IdempotencyKey.objects.filter(key_text="order=8")}
    assert states == {"outer": State.FAILED}


def test_a_duplicate_in_a_chain_hands_its_recorded_value_on(app: Celery) -> None:
    @atomic(app, on_duplicate="replay")
    def price(self: Any, order: int) -> int:  # noqa: ARG001
        return order * 10

    @app.task
    def double(number: int) -> int:
        return number * 2

    results = [chain(price.s(7), double.s()).apply().get() for _ in range(2)]
    assert results == [140, 140]
    assert only_row().token == 1


def test_it_is_undone_with_the_callers_own_block(app: Celery) -> None:
    @atomic(app)
    def charge(self: Any, order: int) -> int:
        write(self)
        return order

    with transaction.atomic():
        charge.delay(7)
        assert only_row().state == State.SUCCEEDED
        transaction.set_rollback(True)
    assert IdempotencyKey.objects.count() == Effect.objects.count() == 0
    assert charge.delay(7).get() == 7
    assert (only_row().state, len(notes())) == (State.SUCCEEDED, 1)
