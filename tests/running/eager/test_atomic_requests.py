"""Eager tasks in a web request, with and without ``ATOMIC_REQUESTS``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery
from django.db import connection, connections
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.test import Client
from django.urls import path

from django_idempotent_tasks import IdempotentTask
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.sample.models import Effect
from tests.support.deliveries import APPS
from tests.support.post import only_row

if TYPE_CHECKING:
    from pytest_django import Settings

pytestmark = pytest.mark.django_db(transaction=True, available_apps=APPS)

#: What the views call: the task of the running test.
_task: list[Any] = []


def order_view(request: HttpRequest, order: int) -> HttpResponse:
    """Call the task and answer with its result; fail afterwards where the request asks for it."""
    called = _task[0].delay(order)
    if "fail" in request.GET:
        raise ZeroDivisionError
    if called.failed():
        return JsonResponse({"error": type(called.result).__name__}, status=502)
    return JsonResponse({"result": called.result, "in_transaction": connection.in_atomic_block})


urlpatterns = [path("orders/<int:order>/", order_view)]


@pytest.fixture(params=[True, False], ids=["ATOMIC_REQUESTS", "autocommit"])
def is_atomic(request: pytest.FixtureRequest, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether each request is a transaction."""
    settings.ROOT_URLCONF, settings.MIDDLEWARE = __name__, []  # those of auth need its models
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", request.param)
    return bool(request.param)


@pytest.fixture(params=["atomic", "leased"])
def task(request: pytest.FixtureRequest, app: Celery) -> Any:
    """A task in each mode, which refuses orders above 100."""

    @app.task(base=IdempotentTask, bind=True, key="order", mode=request.param)
    def sell(self: Any, order: int) -> int:
        Effect.objects.create(key=self.idempotency.key, attempt=1, token=self.idempotency.token)
        if order > 100:
            raise ValueError("too many")
        return order

    _task[:] = [sell]
    return sell


@pytest.mark.usefixtures("task")
def test_a_request_runs_its_task_once_however_often_it_is_made(client: Client, *, is_atomic: bool) -> None:
    first, second = (client.get("/orders/7/") for _ in range(2))
    assert first.json() == {"result": 7, "in_transaction": is_atomic}
    assert second.json()["result"]["reason"] == "already_completed"
    assert (only_row().state, Effect.objects.count()) == (State.SUCCEEDED, 1)
    assert not connection.in_atomic_block


@pytest.mark.usefixtures("task")
def test_a_request_that_fails_takes_its_task_with_it_where_it_is_a_transaction(
    client: Client, *, is_atomic: bool
) -> None:
    with pytest.raises(ZeroDivisionError):
        client.get("/orders/7/?fail")
    assert IdempotencyKey.objects.count() == Effect.objects.count() == (0 if is_atomic else 1)
    assert client.get("/orders/7/").status_code == 200
    assert (only_row().state, Effect.objects.count()) == (State.SUCCEEDED, 1)


def test_a_task_that_fails_does_not_spoil_its_request(client: Client, task: Any, *, is_atomic: bool) -> None:
    answer = client.get("/orders/101/")
    assert (answer.status_code, answer.json()) == (502, {"error": "ValueError"})
    assert only_row().state == State.FAILED
    undone = is_atomic or task.idempotency_policy.mode == "atomic"
    assert Effect.objects.count() == (0 if undone else 1)
