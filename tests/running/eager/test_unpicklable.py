"""An error that cannot be pickled is the same to us, though Celery wraps it for a retry."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Task

from django_idempotent_tasks import IdempotentTask, PermanentError, TransientError
from django_idempotent_tasks.models import FailedJob, IdempotencyKey
from django_idempotent_tasks.states import Category, State
from tests.support.deliveries import APPS

pytestmark = pytest.mark.django_db(transaction=True, available_apps=APPS)


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


class Declined(ConnectionError):
    """It takes two arguments and passes one on: pickle cannot make it again, its base class it can."""

    def __init__(self, card: str, code: int) -> None:
        super().__init__(f"{card}: {code}")
        self.retry_after = 100


class Never(Declined, PermanentError):
    """Such an error that says itself that it is permanent."""


class Soon(Declined, TransientError):
    """Such an error that says itself that nothing has happened."""


KINDS: dict[str, type[Declined]] = {kind.__name__: kind for kind in (Declined, Never, Soon)}


def decline(task: Any, kind: str = "Declined") -> None:  # noqa: ARG001
    raise KINDS[kind]("4111", 51)


def decline_by_hand(task: Any, kind: str = "Declined") -> None:
    try:
        decline(task, kind)
    except Declined as error:
        failed = error
    raise task.retry(exc=failed)  # behind the clause: nothing is its context


def decline_with_celerys(task: Any, kind: str = "Declined") -> None:
    try:
        decline(task, kind)
    except Declined as error:
        raise Task.retry(task, exc=error) from None


def decline_outside(task: Any, kind: str) -> None:
    try:
        with task.idempotency.external():
            decline(task, kind)
    except Declined as error:
        raise task.retry(exc=error) from None


BODIES = [decline, decline_by_hand, decline_with_celerys]
MODES = ["leased", "atomic"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("kind", [Declined, Never])
def test_what_celery_replaces_by_its_base_class_is_judged_as_it_was_raised(
    app: Any, body: Any, mode: str, kind: type[Declined]
) -> None:
    options: dict[str, Any] = {"mode": mode, "key": (), "max_retries": 2}
    options["autoretry_for"] = (ConnectionError,)
    if kind is Declined:
        options["permanent_errors"] = (Declined,)
    app.task(body, base=IdempotentTask, bind=True, **options).apply((), {"kind": kind.__name__})
    job = FailedJob.objects.get()
    assert (job.state, job.category, job.error) == (
        State.FAILED,
        Category.FATAL,
        f"{__name__}.{kind.__name__}",
    )
    assert job.description == "4111: 51"
    assert "in decline" in job.traceback


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("body", BODIES)
def test_each_attempt_is_recorded_with_the_class_and_the_signature_of_what_was_raised(
    app: Any, body: Any, mode: str
) -> None:
    options: dict[str, Any] = {"autoretry_for": (ConnectionError,), "mode": mode, "key": (), "max_retries": 1}
    app.task(body, base=IdempotentTask, bind=True, **options).apply()
    jobs = FailedJob.objects.order_by("id")
    assert [job.state for job in jobs] == [State.RETRY, State.FAILED]
    assert {job.error for job in jobs} == {f"{__name__}.Declined"}
    assert len({job.signature for job in jobs}) == 1


def test_what_says_that_nothing_happened_is_believed_though_it_cannot_be_pickled(app: Any) -> None:
    options: dict[str, Any] = {"at_most_once": True, "key": (), "max_retries": 1}
    app.task(decline_outside, base=IdempotentTask, bind=True, **options).apply((), {"kind": "Soon"})
    assert [job.state for job in FailedJob.objects.order_by("id")] == [State.RETRY, State.FAILED]
