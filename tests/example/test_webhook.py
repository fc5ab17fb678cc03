"""What the webhook sends, and what it refuses with which answer."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from django.db import OperationalError
from django.http import HttpResponse
from django.test import Client

from django_idempotent_tasks import DuplicateTask, KeyReused
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from example_project.payments import views
from example_project.payments.models import ReceivedEvent, Tenant
from example_project.payments.signatures import sign

pytestmark = [pytest.mark.django_db, pytest.mark.urls("example_project.urls")]

DATA = {
    "payment_id": "pay_1",
    "order_id": "order-1000",
    "amount": "19.90",
    "currency": "EUR",
    "status": "completed",
}
EVENT = {"id": "evt_1", "type": "payment.completed", "created": int(time.time()), "data": DATA}


class Recorder:
    """Stands in for the task: keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.error: Exception | None = None

    def apply_async(self, **options: Any) -> Recorder:
        if self.error is not None:
            raise self.error
        self.sent.append(options)
        return self

    @property
    def duplicate(self) -> bool:
        return len(self.sent) > 1

    @property
    def id(self) -> str:
        return f"task-{len(self.sent)}"


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(views, "handle_event", recorder)
    return recorder


def post(
    tenant: Tenant, body: bytes, *, signature: str | None = None, slug: str | None = None
) -> HttpResponse:
    # CSRF checks on, so that the exemption is tested as well.
    return Client(enforce_csrf_checks=True).post(  # type: ignore[return-value]
        f"/webhooks/{slug or tenant.slug}/",
        body,
        content_type="application/json",
        headers={"X-Webhook-Signature": sign(tenant.secret, body) if signature is None else signature},
    )


def event(**changed: object) -> bytes:
    return json.dumps({**EVENT, **changed}).encode()


def data(**changed: object) -> bytes:
    return event(data={**DATA, **changed})


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in EVENT.items() if key != name}).encode()


def without_data(name: str) -> bytes:
    return event(data={key: value for key, value in DATA.items() if key != name})


def test_an_event_is_sent_with_its_id_as_key_and_its_tenant_as_scope(tenant: Tenant, task: Recorder) -> None:
    response = post(tenant, event(livemode=False))

    assert response.status_code == 202
    assert json.loads(response.content) == {"task": "task-1"}
    assert task.sent == [
        {
            "kwargs": {"tenant": "acme", "event_id": "evt_1", **DATA},
            "idempotency_key": "evt_1",
            "scope": "acme",
        }
    ]


def test_a_repeated_event_is_sent_again_and_left_to_its_key(tenant: Tenant, task: Recorder) -> None:
    assert [post(tenant, event()).status_code for _ in range(2)] == [202, 202]

    assert task.sent[0] == task.sent[1]


@pytest.mark.parametrize("status", ["pending", "failed", "completed", "refunded"])
def test_each_type_is_accepted(tenant: Tenant, task: Recorder, status: str) -> None:
    body = event(type=f"payment.{status}", data={**DATA, "status": status})

    assert post(tenant, body).status_code == 202
    assert task.sent[0]["kwargs"]["status"] == status


MALFORMED = {
    "empty": b"",
    "cut off": event()[:-3],
    "not UTF-8": b"\xff\xfe{}",
    "UTF-16": json.dumps(EVENT).encode("utf-16"),
    "nested too deep": b"[" * 4000,
    "number too long": b'{"id": ' + b"1" * 4050 + b"}",
    "a list": b"[]",
    "null": b"null",
    "NaN": b'{"id": NaN}',
    "no id": without("id"),
    "id is a number": event(id=1),
    "id is null": event(id=None),
    "id is empty": event(id=""),
    "id is too long": event(id="e" * 101),
    "id with a line feed": event(id="evt_1\n"),
    "id with a NUL": event(id="evt\u0000"),
    "id with a lone surrogate": event(id="\ud800"),
    "no type": without("type"),
    "type is unknown": event(type="payment.exploded"),
    "type is a list": event(type=["payment.completed"]),
    "no created": without("created"),
    "created is text": event(created="now"),
    "created is a bool": event(created=True),
    "created is negative": event(created=-1),
    "created is far away": event(created=10**30),
    "no data": without("data"),
    "data is a list": event(data=[]),
    "status differs from type": data(status="pending"),
    "status is an object": data(status={}),
    "no payment id": without_data("payment_id"),
    "payment id is a bool": data(payment_id=True),
    "order id with a space": data(order_id="order 1"),
    "no amount": without_data("amount"),
    "amount is a float": data(amount=19.9),
    "amount without cents": data(amount="19"),
    "amount is negative": data(amount="-19.90"),
    "amount is zero": data(amount="0.00"),
    "amount in other digits": data(amount="١٩.٩٠"),
    "amount has an exponent": data(amount="1e9.00"),
    "amount is too large": data(amount="12345678901.00"),
    "currency in small letters": data(currency="eur"),
    "currency is null": data(currency=None),
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_event_is_refused_with_a_reason(tenant: Tenant, task: Recorder, body: bytes) -> None:
    response = post(tenant, body)

    assert response.status_code == 400
    assert json.loads(response.content)["error"]
    assert task.sent == []


@pytest.mark.parametrize(
    "signature", ["", "sha256=", "sha256=00", "ünlich", sign("guessed", event())], ids=range(5)
)
def test_a_wrong_signature_is_refused(tenant: Tenant, task: Recorder, signature: str) -> None:
    assert post(tenant, event(), signature=signature).status_code == 401
    assert task.sent == []


def test_a_tenants_secret_does_not_open_another_tenants_door(tenant: Tenant, task: Recorder) -> None:
    Tenant.objects.create(slug="delta", name="Delta Bikes")

    assert post(tenant, event(), slug="delta").status_code == 401
    assert task.sent == []


def test_the_signature_is_checked_before_the_body_is_read_as_json(tenant: Tenant, task: Recorder) -> None:
    assert post(tenant, b"{", signature="").status_code == 401
    assert task.sent == []


@pytest.mark.parametrize("slug", ["nobody", "n" * 500])
def test_an_unknown_tenant_is_answered_like_a_wrong_signature(
    tenant: Tenant, task: Recorder, slug: str
) -> None:
    unknown, wrong = post(tenant, event(), slug=slug), post(tenant, event(), signature="sha256=00")
    assert (unknown.status_code, unknown.content) == (wrong.status_code, wrong.content)
    assert unknown.status_code == 401
    assert task.sent == []


@pytest.mark.parametrize("age", [4 * 86_400, -3600], ids=["old", "from the future"])
def test_a_recorded_request_is_refused_by_its_age(tenant: Tenant, task: Recorder, age: int) -> None:
    assert post(tenant, event(created=int(time.time()) - age)).status_code == 400
    assert task.sent == []


def test_a_body_above_the_limit_is_refused(tenant: Tenant, task: Recorder) -> None:
    padding = 4096 - len(event(note=""))

    assert post(tenant, event(note="x" * padding)).status_code == 202
    assert post(tenant, event(note="x" * (padding + 1))).status_code == 413
    assert len(task.sent) == 1


@pytest.mark.usefixtures("tenant")
@pytest.mark.parametrize("length", ["", "many", "-1"])
def test_a_nonsense_content_length_is_no_server_error(task: Recorder, length: str) -> None:
    response = Client().post("/webhooks/acme/", event(), content_type="text/plain", CONTENT_LENGTH=length)

    assert response.status_code == 401
    assert task.sent == []


@pytest.mark.usefixtures("tenant")
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_only_post_is_allowed(method: str) -> None:
    assert Client().generic(method, "/webhooks/acme/").status_code == 405


@pytest.mark.parametrize(
    ("error", "status"), [(OperationalError("no database"), 503), (DuplicateTask("open elsewhere"), 409)]
)
def test_an_event_that_could_not_be_accepted_is_asked_for_again(
    tenant: Tenant, task: Recorder, error: Exception, status: int
) -> None:
    task.error = error

    response = post(tenant, event())

    assert response.status_code == status
    assert response["Retry-After"]
    assert not ReceivedEvent.objects.exists()


def test_an_event_id_with_another_content_is_refused_for_good(tenant: Tenant, task: Recorder) -> None:
    task.error = KeyReused("another payload")

    assert post(tenant, event()).status_code == 422


def test_an_event_and_its_key_are_written_together(tenant: Tenant) -> None:
    task_id = json.loads(post(tenant, event()).content)["task"]
    again = json.loads(post(tenant, event()).content)["task"]

    [row] = ReceivedEvent.objects.all()
    [key] = IdempotencyKey.objects.all()
    assert (row.task_id, key.task_id, again) == (task_id, task_id, task_id)
    assert (key.state, key.scope, key.key_text) == (State.PENDING, "acme", "evt_1")


def test_an_event_whose_key_is_pruned_is_not_worked_on_again(tenant: Tenant) -> None:
    first = json.loads(post(tenant, event()).content)["task"]
    IdempotencyKey.objects.all().delete()

    again = post(tenant, event())

    assert (again.status_code, json.loads(again.content)["task"]) == (202, first)
    assert not IdempotencyKey.objects.exists()
