"""Bodies that end or call in unusual ways: each key is settled once, and for its own work."""

from __future__ import annotations

from asyncio import CancelledError
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import Ignore, Retry

from django_idempotent_tasks import IdempotentTask, TaskExit
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import Reason, State
from tests.support.post import only_row

pytestmark = pytest.mark.usefixtures("_twice")


def test_a_direct_call_inside_a_body_has_a_key_of_its_own(app: Celery) -> None:
    keys: list[str] = []

    @app.task(base=IdempotentTask, bind=True, key="order")
    def charge(self: Any, order: int, rest: tuple[int, ...] = ()) -> int:
        for other in rest:
            charge(other)
        with self.idempotency.complete() as done:
            keys.append(self.idempotency.downstream_key("charge"))
            done.result = order
        return order

    assert charge.delay(1, rest=(2, 3)).get() == 1
    assert len(set(keys)) == len(keys) == 3
    assert (only_row().state, only_row().result) == (State.SUCCEEDED, "1")


def test_apply_takes_a_key_and_a_scope_as_apply_async_does(app: Celery) -> None:
    @app.task(base=IdempotentTask, key="order")
    def charge(order: int) -> int:
        return order

    for key, scope in (("evt-1", "t1"), ("evt-2", "t1"), ("evt-1", "t2")):
        assert charge.apply((50,), idempotency_key=key, scope=scope).get() == 50
    assert IdempotencyKey.objects.count() == 3


@pytest.mark.parametrize("ending", [Ignore(), ValueError("no"), None], ids=["ignore", "error", "return"])
def test_a_retry_that_is_not_thrown_is_still_the_outcome(app: Celery, ending: Exception | None) -> None:
    @app.task(base=IdempotentTask, bind=True, key="order", max_retries=3)
    def charge(self: Any, order: int) -> int:
        # What retry(throw=False) does in a worker.
        self.signature_from_request(self.request, retries=self.request.retries + 1).apply_async()
        if ending is not None:
            raise ending
        return order

    charge.apply((7,))
    row = only_row()
    assert (row.state, row.reason) == (State.RETRY, Reason.RETRY_ASKED)
    assert '"retries": 1' in (row.message or "")


def test_a_body_that_is_cancelled_fails_and_does_not_come_back(app: Celery) -> None:
    @app.task(base=IdempotentTask, key="order")
    def charge(order: int) -> int:
        raise CancelledError(order)

    assert isinstance(charge.delay(7).result, TaskExit)
    assert (only_row().state, only_row().reason) == (State.FAILED, Reason.RETRIES_USED_UP)


def test_a_retry_that_was_raised_by_hand_is_a_failure(app: Celery) -> None:
    @app.task(base=IdempotentTask, key="order")
    def charge(order: int) -> int:
        raise Retry(f"by hand: {order}")

    assert "self.retry()" in str(charge.delay(7).result)
    assert only_row().state == State.FAILED
