"""``SubmitMixin``: what ``submit_response`` promises, with DRF's users, negotiation, throttles and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import OperationalError, connections

pytest.importorskip("rest_framework")
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.test import APIClient, APIRequestFactory, force_authenticate

from django_idempotent_tasks.models import DuplicateAttempt, IdempotencyKey
from django_idempotent_tasks.sending.reservation import Reservation
from django_idempotent_tasks.states import State
from tests.drf import urls
from tests.support.ledger.quick import EVERY_APP
from tests.support.post import Post

if TYPE_CHECKING:
    from pytest_django import Settings

pytestmark = pytest.mark.django_db(transaction=True, available_apps=EVERY_APP)


class Client:
    """Somebody with a token, or with a session."""

    def __init__(self, name: str, *, by_session: bool = False) -> None:
        user = User.objects.get_or_create(username=name)[0]
        self.client = APIClient(raise_request_exception=False)
        if by_session:
            self.client.force_login(user)
        else:
            self.client.credentials(HTTP_AUTHORIZATION=f"Token {name}")

    def submit(
        self, key: str | None = "k1", *, path: str = "/plans/", data: Any = None, **headers: str
    ) -> Any:
        """POST an order under a key."""
        named = headers if key is None else {**headers, "Idempotency-Key": key}
        return self.client.post(path, data or {"order_id": 7}, format="json", headers=named)


@pytest.fixture
def task(post: Post, settings: Settings) -> Iterator[Any]:
    """The task of the project."""
    settings.ROOT_URLCONF = urls.__name__
    cache.clear()
    task = post.task(name="plans.generate", max_retries=0)
    urls.TASK.append(task)
    yield task
    urls.TASK.pop()


@pytest.fixture
def ann(task: Any) -> Client:  # noqa: ARG001  whose URLs are asked
    """A user with a token."""
    return Client("ann")


@pytest.mark.parametrize("by_session", [False, True], ids=["token", "session"])
def test_a_job_belongs_to_the_user_that_drf_knows(
    task: Any,
    post: Post,
    by_session: bool,
) -> None:
    ann, bob = Client("ann", by_session=by_session), Client("bob")
    first = ann.submit()
    assert (first.status_code, first.json()["state"]) == (202, "pending")
    second = ann.submit()
    assert (second.status_code, second["Content-Type"]) == (409, "application/problem+json")
    assert second["Location"] == first["Location"]
    assert second.json()["job"]["id"] == first.json()["id"]
    assert 1 <= int(second["Retry-After"]) <= 10
    assert bob.submit().status_code == 202
    post.work(task)
    again = ann.submit()
    assert (again.status_code, again["Idempotent-Replayed"], again.json()["result"]) == (200, "true", 7)


def test_the_views_of_a_job_know_the_users_of_tokens(ann: Client) -> None:
    first = ann.submit()
    found = ann.client.get(first["Location"])
    assert (found.status_code, found.json()["state"], found["Cache-Control"]) == (200, "pending", "no-store")
    assert Client("bob").client.get(first["Location"]).status_code == 404
    assert APIClient().get(first["Location"]).status_code == 404
    assert Client("bob").client.post(first.json()["cancel_url"]).status_code == 404
    cancelled = ann.client.post(first.json()["cancel_url"])
    assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")


def test_a_view_set_may_name_the_work_itself(ann: Client) -> None:
    assert [ann.submit(None, path="/orders/8/").status_code for _ in range(2)] == [202, 409]


@pytest.mark.parametrize(
    ("given", "status", "code"),
    [
        ({"key": None}, 400, "key-missing"),
        ({"key": "x" * 256}, 400, "key-malformed"),
        ({"data": {"order": 1}}, 400, "bad-arguments"),
        ({"data": [1]}, 400, "bad-arguments"),
        ({"data": {"order_id": 8}}, 422, "key-reused"),
        ({"data": {"order_id": "x" * (1024 * 1024)}, "key": "large"}, 413, "payload-too-large"),
    ],
)
def test_what_is_refused_is_an_exception_that_the_projects_handler_gets(
    ann: Client, settings: Settings, given: Any, status: int, code: str
) -> None:
    ann.submit()
    told: list[Any] = []
    settings.REST_FRAMEWORK = {**settings.REST_FRAMEWORK, "EXCEPTION_HANDLER": f"{__name__}.handled"}
    HANDLED[:] = [told]
    answer = ann.submit(**given)
    assert answer.status_code == status
    assert set(answer.json()) == {"detail"}
    assert [error.get_codes() for error in told] == [code]
    assert IdempotencyKey.objects.count() == 1


#: Where the project's exception handler notes what it got.
HANDLED: list[list[Any]] = []


def handled(error: Exception, context: Any) -> Any:
    """The project's exception handler."""
    from rest_framework.views import exception_handler  # noqa: PLC0415

    HANDLED[0].append(error)
    return exception_handler(error, context)


def test_without_a_user_drf_says_how_to_sign_in(task: Any) -> None:  # noqa: ARG001
    answer = APIClient().post("/plans/", {"order_id": 7}, headers={"Idempotency-Key": "k1"})
    assert (answer.status_code, answer["WWW-Authenticate"]) == (401, "Token")


def test_a_ledger_that_is_down_is_503_and_says_when_to_ask_again(
    ann: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(_reservation: Any) -> None:
        raise OperationalError

    monkeypatch.setattr(Reservation, "submit", down)
    answer = ann.submit()
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")


def test_the_answer_has_the_format_that_the_client_accepts(ann: Client) -> None:
    own = "application/vnd.shop+json"
    first, second = (ann.submit(Accept=own) for _ in range(2))
    assert [answer["Content-Type"].partition(";")[0] for answer in (first, second)] == [own, own]
    assert json.loads(second.content)["job"]["id"] == json.loads(first.content)["id"]
    assert ann.submit("k2", Accept="text/csv").status_code == 406
    assert IdempotencyKey.objects.count() == 1


def test_a_rate_counts_new_work_and_no_repetition(ann: Client) -> None:
    codes = [ann.submit(key, path="/rated/").status_code for key in ("a", "a", "a", "b", "c")]
    assert codes == [202, 409, 409, 202, 429]
    assert Client("bob").submit("a", path="/rated/").status_code == 202
    assert IdempotencyKey.objects.count() == 3


def test_under_atomic_requests_the_call_belongs_to_the_request(
    ann: Client,
    post: Post,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    assert ann.submit().status_code == 202
    assert len(post.arrived()) == 1
    assert ann.submit().status_code == 409
    assert DuplicateAttempt.objects.count() == 1  # 409 is an answer: nothing is rolled back for it
    assert ann.submit(data={"order_id": 8}).status_code == 422
    kept = urls.PlanView.finalize_response

    def fails(*_given: Any, **_named: Any) -> Any:
        raise RuntimeError

    monkeypatch.setattr(urls.PlanView, "finalize_response", fails)
    assert ann.submit("k2").status_code == 500
    monkeypatch.setattr(urls.PlanView, "finalize_response", kept)
    assert IdempotencyKey.objects.count() == 1
    assert post.arrived() == []


def test_an_asynchronous_view_awaits_it(task: Any, ann: Client) -> None:  # noqa: ARG001
    request = APIRequestFactory().post("/plans/", headers={"Idempotency-Key": "k1"})
    force_authenticate(request, User.objects.get(username="ann"))
    view = urls.PlanView()
    view.request = view.initialize_request(request)
    assert isinstance(view.request, Request)
    view.request.accepted_renderer = JSONRenderer()
    answer = async_to_sync(view.asubmit)(task, {"order_id": 7})
    assert (answer.status_code, answer.data["state"]) == (202, "pending")
    assert IdempotencyKey.objects.get().state == State.PENDING


@pytest.mark.interop
def test_drf_spectacular_describes_header_and_answers(task: Any) -> None:  # noqa: ARG001
    pytest.importorskip("drf_spectacular")
    from drf_spectacular.generators import SchemaGenerator  # noqa: PLC0415

    schema = SchemaGenerator(patterns=urls.urlpatterns).get_schema(request=None, public=True)
    plans = schema["paths"]["/plans/"]["post"]
    assert {"200", "202", "400", "409", "413", "422", "503"} <= set(plans["responses"])
    (header,) = (each for each in plans["parameters"] if each["in"] == "header")
    assert (header["name"], header["in"], header["required"]) == ("Idempotency-Key", "header", True)
    orders = schema["paths"]["/orders/{order_id}/"]["post"]
    assert {each["in"] for each in orders["parameters"]} == {"path"}
    assert "/jobs/{task_id}/" in schema["paths"]
