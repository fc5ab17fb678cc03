"""With the result backend away, an accepted call's result is what the ledger knows of it."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from celery.contrib.abortable import ABORTED, AbortableAsyncResult, AbortableTask
from celery.exceptions import TaskRevokedError
from celery.exceptions import TimeoutError as CeleryTimeoutError
from django.db import connection

from django_idempotent_tasks import IdempotentTaskMixin, RecordedError
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.sending.result import AcceptedResult
from example_project.servers import Server, start_broker
from tests.support.post import Post
from tests.support.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"])

#: Seconds that a look at a server that is down takes at most, with all tries of redis-py and Celery.
LONGEST = 30


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with start_broker(persistent=False) as server:
        yield server


@pytest.fixture
def results(post: Post, server: Server) -> Iterator[Server]:
    """A Redis with the results, which a test may stop."""
    post.app.conf.update(
        result_backend=server.url,
        result_backend_transport_options={"retry_policy": {"max_retries": 2}},
    )
    server.restart()
    yield server
    server.restart()  # what is garbage by now unsubscribes
    post.app.close()


def refuse(order_id: int) -> None:
    raise LookupError(order_id)


def ended(post: Post, body: Any = None) -> Any:
    charge = post.task(body)
    result = charge.delay(7)
    post.work(charge)
    return result


def test_what_ended_is_told_while_redis_is_down(post: Post, results: Server) -> None:
    result = ended(post)
    results.kill()
    began = time.monotonic()
    assert (result.state, result.ready(), result.successful()) == ("SUCCESS", True, True)
    assert (result.result, result.get(timeout=5), result.children) == (7, 7, None)
    assert time.monotonic() - began < LONGEST


def test_a_failure_is_raised_and_a_cancel_told_while_redis_is_down(post: Post, results: Server) -> None:
    failed = ended(post, refuse)
    charge = post.task(name="shop.refund")
    cancelled = charge.delay(8)
    charge.cancel(task_id=cancelled.id)
    results.kill()
    for _ in range(2):
        with pytest.raises(RecordedError, match="LookupError: 7"):
            failed.get(timeout=5)
    assert failed.failed()
    with pytest.raises(TaskRevokedError):
        cancelled.get(timeout=5)


def test_a_call_that_waits_is_pending_and_its_wait_ends_in_time(post: Post, results: Server) -> None:
    result = post.task().delay(7)
    results.kill()
    assert (result.state, result.ready()) == ("PENDING", False)
    with pytest.raises(CeleryTimeoutError):
        result.get(timeout=0.1, interval=0.01)


def test_a_call_that_the_ledger_does_not_know_raises_what_the_backend_raised(
    post: Post, results: Server
) -> None:
    result = post.task().delay(7)
    IdempotencyKey.objects.all().delete()
    results.kill()
    with pytest.raises(redis.ConnectionError):
        _ = result.state
    with pytest.raises(redis.ConnectionError):
        result.get(timeout=5)


def test_who_waits_when_redis_goes_away_hears_of_the_end(post: Post, results: Server) -> None:
    charge = post.task()
    result = charge.delay(7)
    got: list[Any] = []

    def wait() -> None:
        try:
            got.append(result.get(timeout=60, interval=0.05))
        finally:
            connection.close()

    waiter = threading.Thread(target=wait)
    waiter.start()
    with redis.Redis.from_url(results.url) as client:
        eventually(client.pubsub_channels, "the caller waits", within=20)
    results.kill()
    post.work(charge)
    waiter.join(60)
    assert got == [7]


class Abortable(IdempotentTaskMixin, AbortableTask):  # type: ignore[type-arg]
    """A task with a class of its own for results."""

    abstract = True


def test_a_tasks_own_class_of_results_is_kept_and_asks_the_ledger(post: Post) -> None:
    post.app.conf.update(result_backend="cache+memory://")
    charge = post.task(base=Abortable)
    first = charge.delay(7)
    assert isinstance(first, AbortableAsyncResult)
    assert isinstance(first, AcceptedResult)
    assert not first.is_aborted()
    first.abort()
    assert (first.state, first.is_aborted()) == (ABORTED, True)
    assert charge.AsyncResult(first.id).is_aborted()
    second = charge.delay(7)
    assert (second.duplicate, second.id, type(second)) == (True, first.id, type(first))
    charge.backend.forget(first.id)
    post.work(charge)
    assert charge.delay(7).get(timeout=5) == 7


def test_a_result_of_either_class_can_be_pickled(post: Post) -> None:
    for number, base in enumerate((Abortable, IdempotentTaskMixin)):
        result = post.task(base=base, name=f"shop.{number}").delay(7)
        result.backend = None
        again = pickle.loads(pickle.dumps(result))  # noqa: S301  our own
        assert (type(again), again.id, again.digest) == (type(result), result.id, result.digest)
