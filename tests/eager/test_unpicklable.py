"""An error that cannot be pickled is the same to us, though Celery wraps it for a retry."""

from __future__ import annotations

from typing import Any

import pytest

from django_idempotent_tasks import IdempotentTask
from django_idempotent_tasks.models import FailedJob, IdempotencyKey
from django_idempotent_tasks.states import Category, State

pytestmark = pytest.mark.django_db(transaction=True)


class Refused(Exception):
    """Its class cannot be found by name, as that of an error made in a function."""

    def __reduce__(self) -> str:
        return "no such name"


def refuse(task: Any) -> None:
    with task.idempotency.external():
        raise Refused


def retry_by_hand(task: Any) -> None:
    try:
        refuse(task)
    except Refused as error:
        raise task.retry(exc=error) from None


OPTIONS: list[tuple[Any, dict[str, Any]]] = [
    (refuse, {"at_most_once": True, "transient_errors": (Refused,)}),
    (refuse, {"autoretry_for": (Refused,)}),
    (retry_by_hand, {}),
]


@pytest.mark.parametrize(("body", "options"), OPTIONS, ids=["transient", "autoretry", "by hand"])
def test_it_is_retried_and_recorded_by_its_own_name(app: Any, body: Any, options: dict[str, Any]) -> None:
    task = app.task(body, base=IdempotentTask, bind=True, key=(), max_retries=2, **options)
    task.delay()
    jobs = FailedJob.objects.order_by("id")
    assert [job.state for job in jobs] == [State.RETRY, State.RETRY, State.FAILED]
    assert {job.error for job in jobs} == {f"{__name__}.Refused"}
    assert IdempotencyKey.objects.get().category == Category.RETRYABLE


def test_a_permanent_error_is_not_retried(app: Any) -> None:
    options = {"autoretry_for": (Refused,), "permanent_errors": (Refused,)}
    app.task(refuse, base=IdempotentTask, bind=True, key=(), max_retries=2, **options).delay()
    assert FailedJob.objects.get().state == State.FAILED
