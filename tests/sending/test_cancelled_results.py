"""Who waits for a result that a cancellation ends hears of it."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from celery.exceptions import TaskRevokedError
from celery.result import AsyncResult
from django.db import connection, transaction

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.support.post import Post, only_row, rolled_back

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"])


def send(charge: Any) -> str:
    return str(charge.apply_async((7,), idempotency_key="evt", scope="tenant").id)


def by_call(charge: Any, task_id: str) -> str:
    return str(charge.cancel(task_id=task_id))


def waiter(result: Any, heard: list[Any]) -> threading.Thread:
    """Wait in ``get`` as another process would: with nothing but the result backend to hear from."""

    def wait() -> None:
        try:
            heard.append(result.get(timeout=20))
        except Exception as error:  # noqa: BLE001
            heard.append(error)
        connection.close()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.parametrize("options", [{}, {"countdown": 3600}], ids=["sent", "far"])
@pytest.mark.parametrize("reserve", [True, False])
def test_who_waits_for_a_cancelled_call_hears_of_it(
    post: Post, tmp_path: Path, options: dict[str, Any], reserve: bool
) -> None:
    post.app.conf.update(result_backend=f"file://{tmp_path}")
    charge = post.task(reserve=reserve)
    result = charge.submit((7,), **options).result
    heard: list[Any] = []
    waiting = waiter(AsyncResult(result.id, app=post.app), heard)
    assert charge.cancel(task_id=result.id) == "cancelled"
    waiting.join()
    assert [type(each) for each in heard] == [TaskRevokedError]


def test_who_waits_for_the_call_that_took_over_hears_of_it_too(post: Post) -> None:
    post.app.conf.update(result_backend="cache+memory://")
    charge = post.task()
    task_id = send(charge)
    IdempotencyKey.objects.update(state=State.RUNNING, runner_task_id="successor")
    by_call(charge, task_id)
    assert [charge.backend.get_state(each) for each in (task_id, "successor")] == ["REVOKED", "REVOKED"]


def test_the_result_backend_is_told_after_the_commit_and_not_of_a_rollback(post: Post) -> None:
    post.app.conf.update(result_backend="cache+memory://")
    charge = post.task()
    task_id = send(charge)
    with rolled_back():
        by_call(charge, task_id)
    assert charge.backend.get_state(task_id) == "PENDING"
    with transaction.atomic():
        by_call(charge, task_id)
        assert charge.backend.get_state(task_id) == "PENDING"
    assert charge.backend.get_state(task_id) == "REVOKED"


def test_a_result_that_nobody_wants_is_not_written(post: Post) -> None:
    post.app.conf.update(result_backend="cache+memory://")
    charge = post.task(ignore_result=True)
    task_id = send(charge)
    by_call(charge, task_id)
    assert charge.backend.get_state(task_id) == "PENDING"


@pytest.mark.parametrize("is_silent", [True, False], ids=["silent", "down"])
def test_a_result_backend_that_does_not_answer_neither_fails_nor_holds_up_a_cancellation(
    post: Post, is_silent: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1] if is_silent else 9
        post.app.conf.update(result_backend=f"redis://127.0.0.1:{port}/0")
        charge = post.task()
        task_id = send(charge)
        began = time.monotonic()
        assert by_call(charge, task_id) == "cancelled"
        assert time.monotonic() - began < 10
    assert only_row().state == State.CANCELLED
    assert task_id in caplog.text
