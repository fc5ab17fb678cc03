"""The result of an accepted call asks the ledger what the result backend does not know."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from celery.exceptions import TaskRevokedError
from celery.exceptions import TimeoutError as CeleryTimeoutError
from django.db import connection

from django_idempotent_tasks import RecordedError, ResultNotStored
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.sending.result import AcceptedResult
from django_idempotent_tasks.states import Reason, State
from tests.support.post import Post

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"])

CELERYS = {
    State.PENDING: "PENDING",
    State.RUNNING: "STARTED",
    State.RETRY: "RETRY",
    State.SUCCEEDED: "SUCCESS",
    State.FAILED: "FAILURE",
    State.REVIEW: "FAILURE",
    State.CANCELLED: "REVOKED",
}


@pytest.fixture(params=[None, "cache+memory://"], ids=["disabled", "forgetful"])
def post(post: Post, request: pytest.FixtureRequest) -> Post:
    """Without a result backend, and with one that knows nothing of the call."""
    post.app.conf.update(result_backend=request.param)
    return post


@pytest.mark.parametrize("state", State)
def test_its_state_is_that_of_the_key(post: Post, state: State) -> None:
    result = post.task().delay(7)
    IdempotencyKey.objects.update(state=state, result='{"error": "E", "message": "m"}')
    assert result.state == CELERYS[state]


def test_it_returns_the_stored_value(post: Post) -> None:
    charge = post.task(describe)
    result = charge.delay(7)
    post.work(charge)
    assert result.get(timeout=5) == {"order": 7, "lines": [1, 2]}
    assert result.successful()


def describe(order_id: int) -> dict[str, Any]:
    return {"order": order_id, "lines": (1, 2)}


def test_a_failure_is_raised_as_the_recorded_error(post: Post) -> None:
    def fail(order_id: int) -> None:
        msg = f"no order {order_id}"
        raise LookupError(msg)

    charge = post.task(fail)
    result = charge.delay(7)
    post.work(charge)
    with pytest.raises(RecordedError, match="LookupError: no order 7"):
        result.get(timeout=5)
    assert isinstance(result.get(timeout=5, propagate=False), RecordedError)
    assert result.failed()


def test_a_cancelled_call_is_raised_as_revoked(post: Post) -> None:
    charge = post.task()
    result = charge.delay(7)
    charge.cancel(task_id=result.id)
    with pytest.raises(TaskRevokedError):
        result.get(timeout=5)


def test_a_call_that_a_worker_dropped_as_cancelled_is_raised_as_revoked(post: Post) -> None:
    post.app.conf.update(result_backend="cache+memory://")
    charge = post.task()
    result = charge.delay(7)
    charge.backend.store_result(result.id, None, "REVOKED")
    with pytest.raises(TaskRevokedError):
        result.get(timeout=5)


def test_a_result_that_was_not_stored_is_an_error_and_not_a_value(post: Post) -> None:
    charge = post.task(store_result=False)
    result = charge.delay(7)
    post.work(charge)
    assert IdempotencyKey.objects.get().reason == Reason.RESULT_NOT_STORED
    assert result.state == "SUCCESS"
    with pytest.raises(ResultNotStored):
        result.get(timeout=5)


def test_a_replaced_call_is_answered_as_it_ended(post: Post) -> None:
    charge = post.task(retention=0)
    first = charge.delay(7)
    post.work(charge)
    second = charge.delay(7)
    assert second.id != first.id
    assert (first.state, first.get(timeout=5)) == ("SUCCESS", 7)
    assert second.state == "PENDING"


def test_a_duplicate_reads_the_accepted_calls_result(post: Post) -> None:
    charge = post.task()
    charge.delay(7)
    post.work(charge)
    assert charge.delay(7).get(timeout=5) == 7


def test_a_call_whose_row_is_gone_is_pending_as_celery_says_of_unknown_ones(post: Post) -> None:
    result = post.task().delay(7)
    IdempotencyKey.objects.all().delete()
    assert result.state == "PENDING"


def test_a_result_that_is_ignored_is_not_waited_for(post: Post) -> None:
    result = post.task(ignore_result=True).delay(7)
    assert result.get() is None


def test_the_wait_ends_with_the_timeout(post: Post) -> None:
    result = post.task().delay(7)
    with pytest.raises(CeleryTimeoutError):
        result.get(timeout=0.1, interval=0.01)


@pytest.mark.parametrize("post", [None], indirect=True, ids=["disabled"])
def test_without_a_backend_the_ledger_is_watched_until_the_work_ends(post: Post) -> None:
    charge = post.task()
    result = charge.delay(7)
    looked = threading.Event()

    def work() -> None:
        looked.wait(5)
        post.work(charge)
        connection.close()

    def look(self: AcceptedResult) -> Any:
        meta = ask(self)
        looked.set()
        return meta

    ask = AcceptedResult._get_task_meta
    worker = threading.Thread(target=work)
    worker.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AcceptedResult, "_get_task_meta", look)
        assert result.get(timeout=20, interval=0.01) == 7
    worker.join()


def test_the_backends_own_answer_comes_first(post: Post) -> None:
    post.app.conf.update(result_backend="cache+memory://")
    charge = post.task()
    result = charge.delay(7)
    post.work(charge)
    charge.backend.store_result(result.id, "what the backend has", "SUCCESS")
    assert result.get(timeout=5) == "what the backend has"


def test_the_ledger_knows_the_end_that_the_backend_missed(post: Post) -> None:
    post.app.conf.update(result_backend="cache+memory://")
    charge = post.task()
    result = charge.delay(7)
    charge.backend.store_result(result.id, None, "STARTED")
    assert result.state == "STARTED"
    post.work(charge)
    assert (result.state, result.get(timeout=5)) == ("SUCCESS", 7)
