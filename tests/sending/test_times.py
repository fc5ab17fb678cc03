"""When a reserved call is to run, and until when: an ETA near and far, and an expiry."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from celery.worker.state import revoked
from django.db import connection
from django.utils import timezone

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import Reason, State
from django_idempotent_tasks.worker.hooks import _on_revoked
from tests.support.post import Post, only_row

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"])

SOON, FAR = 60, 3600


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def seconds_from_now(when: datetime | None) -> float:
    assert when is not None
    return (when - timezone.now()).total_seconds()


@pytest.mark.parametrize("given", ["countdown", "eta", "eta as text"])
def test_a_near_eta_travels_with_the_message(post: Post, given: str) -> None:
    eta = datetime.now(UTC) + timedelta(seconds=SOON)
    options: dict[str, dict[str, Any]] = {
        "countdown": {"countdown": SOON},
        "eta": {"eta": eta},
        "eta as text": {"eta": eta.isoformat()},
    }
    post.task().apply_async((7,), **options[given])
    (message,) = post.arrived()
    assert seconds_from_now(moment(message["eta"])) == pytest.approx(SOON, abs=5)
    assert seconds_from_now(only_row().due_at) == pytest.approx(SOON + 300, abs=5)


def test_a_countdown_is_one_moment_however_often_it_is_sent(post: Post) -> None:
    post.task().apply_async((7,), countdown=SOON)
    (first,) = post.arrived()
    post.sweep(after=SOON + 310)
    (second,) = post.arrived()
    assert second["eta"] == first["eta"]


@pytest.mark.parametrize("given", ["countdown", "eta"])
def test_a_far_eta_waits_in_the_ledger_and_is_sent_when_due(post: Post, given: str) -> None:
    eta = datetime.now(UTC) + timedelta(seconds=FAR)
    result = post.task().apply_async((7,), **({"eta": eta} if given == "eta" else {"countdown": FAR}))
    assert post.arrived() == []
    row = only_row()
    assert seconds_from_now(row.due_at) == pytest.approx(FAR, abs=5)
    assert row.sends == -1

    post.sweep(after=FAR - 60)
    assert post.arrived() == []
    post.sweep(after=FAR + 1)
    (message,) = post.arrived()
    assert message["id"] == result.id
    assert abs(moment(message["eta"]) - eta) < timedelta(seconds=5)


def test_a_far_call_that_was_sent_and_lost_is_sent_again(post: Post) -> None:
    post.task().apply_async((7,), countdown=FAR)
    post.sweep(after=FAR + 1)
    assert len(post.arrived()) == 1
    post.sweep(after=FAR + 100)
    assert post.arrived() == []
    post.sweep(after=FAR + 400)
    assert len(post.arrived()) == 1


def test_an_eta_that_is_over_is_sent_at_once(post: Post) -> None:
    post.task().apply_async((7,), eta=datetime.now(UTC) - timedelta(hours=1))
    assert len(post.arrived()) == 1
    assert seconds_from_now(only_row().due_at) == pytest.approx(300, abs=5)


def test_a_duplicate_of_a_call_that_waits_for_its_eta_is_refused(post: Post) -> None:
    charge = post.task()
    first = charge.apply_async((7,), countdown=FAR)
    again = charge.delay(7)
    assert (again.id, again.duplicate) == (first.id, True)


@pytest.mark.filterwarnings("ignore::celery.exceptions.CDeprecationWarning")
@pytest.mark.parametrize("of_the_task", [True, False], ids=["of the task", "of the call"])
def test_an_expiry_in_seconds_counts_from_the_call(post: Post, of_the_task: bool) -> None:
    charge = post.task(**({"expires": 600} if of_the_task else {}))
    charge.apply_async((7,), **({} if of_the_task else {"expires": 600}))
    (first,) = post.arrived()
    assert seconds_from_now(moment(first["expires"])) == pytest.approx(600, abs=5)
    post.sweep(after=310)
    (second,) = post.arrived()
    assert second["expires"] == first["expires"]


@pytest.mark.parametrize("expires", [datetime(2020, 1, 1, tzinfo=UTC), "2020-01-01T00:00:00+00:00", -5])
def test_a_call_that_has_expired_is_cancelled_and_not_sent_again(post: Post, expires: Any) -> None:
    post.task().apply_async((7,), expires=expires)
    post.arrived()
    post.sweep()
    assert only_row().state == State.CANCELLED
    assert post.arrived() == []


def expired(post: Post, charge: Any) -> None:
    """Let a worker's parent find the message expired, as Celery reports it."""
    (message,) = post.arrived()
    revoked.add(message["id"])
    request = SimpleNamespace(
        headers={"idempotency": message["idempotency"]},
        id=message["id"],
        args=message["args"],
        kwargs=message["kwargs"],
    )
    _on_revoked(charge, request, expired=True)


def test_an_expired_message_cancels_a_key_that_was_never_started(post: Post) -> None:
    charge = post.task()
    charge.apply_async((7,), expires=600)
    expired(post, charge)
    row = only_row()
    assert (row.state, row.reason) == (State.CANCELLED, Reason.CANCELLED)
    assert not charge.delay(7).duplicate


@pytest.mark.parametrize("state", [State.RUNNING, State.RETRY, State.SUCCEEDED])
def test_an_expired_message_changes_no_key_that_was_started(post: Post, state: State) -> None:
    charge = post.task()
    result = charge.apply_async((7,), expires=600)
    IdempotencyKey.objects.update(state=state)
    expired(post, charge)
    assert only_row().state == state
    assert result.id not in revoked, "a retry of the call would be taken for a revoked one"


def test_an_expired_message_of_another_call_changes_nothing(post: Post) -> None:
    charge = post.task()
    charge.apply_async((7,), expires=600)
    IdempotencyKey.objects.update(task_id="another")
    expired(post, charge)
    assert only_row().state == State.PENDING


def test_work_that_was_started_does_not_expire(post: Post) -> None:
    post.task().apply_async((7,), expires=600)
    post.arrived()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_idempotent_tasks_idempotencykey SET state = 3, open_at = now()")
    post.sweep(after=7200)
    (message,) = post.arrived()
    assert message["expires"] is None
