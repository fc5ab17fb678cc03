"""A registration is paid once, whatever the order and number of the webhooks, and whichever comes first."""

from __future__ import annotations

import json
import time
from decimal import Decimal
from http.client import HTTPConnection
from itertools import permutations
from threading import Event as Signal
from threading import Thread
from typing import Any

import pytest
from django.db import connection, transaction
from django.http import HttpResponse
from django.test import Client
from pytest_django import Settings

from django_idempotent_tasks.models import IdempotencyKey
from example_project.gateway.server import GatewayServer
from example_project.payments.events import PaymentEvent
from example_project.payments.models import Payment, Status, Tenant
from example_project.payments.signatures import sign
from example_project.printer.server import PrinterServer
from example_project.registrations import enrolment, printer_client
from example_project.registrations.models import Badge, Registration, Upload
from example_project.registrations.printer_client import PrinterUnavailable
from example_project.registrations.tasks import print_badge, take_payment
from example_project.servers.process import free_port
from tests.example.registrations.test_enrolment import asked, enrolled, row
from tests.support.ledger.quick import EVERY_APP
from tests.support.staying import stays

pytestmark = pytest.mark.usefixtures("gateway")


def reference(upload: Upload, number: int = 1) -> str:
    return f"reg-{upload.pk.hex}-{number + 1}"


def said(upload: Upload, status: str, number: int = 0) -> PaymentEvent:
    name = reference(upload)
    return PaymentEvent(f"evt_{status}_{number}", name, name, Decimal("39.00"), "EUR", status)


@pytest.mark.parametrize("order", sorted(set(permutations(["row", "pending", "completed", "completed"]))))
def test_in_every_order_it_is_paid_once_and_stays_so(upload: Upload, order: tuple[str, ...]) -> None:
    made_paid = []
    for number, step in enumerate(order):
        if step == "row":
            made_paid.append(enrolled(upload, row(ticket="team")))
        else:
            made_paid.append(enrolment.settle("acme", said(upload, step, number)))
    assert made_paid.count(True) == 1
    assert Registration.objects.get().paid_at is not None
    assert Payment.objects.get().status == Status.COMPLETED


def test_what_was_paid_back_before_it_was_known_as_paid_gets_no_badge(upload: Upload) -> None:
    enrolled(upload, row(ticket="team"))
    assert not enrolment.settle("acme", said(upload, "refunded"))
    assert not enrolment.settle("acme", said(upload, "completed"))
    assert Payment.objects.get().status == Status.REFUNDED


def test_another_tenant_s_payment_of_the_same_name_pays_nothing(upload: Upload) -> None:
    enrolled(upload, row(ticket="team"))
    Tenant.objects.create(slug="delta", name="Delta Bikes")
    assert not enrolment.settle("delta", said(upload, "completed"))
    assert Registration.objects.get().paid_at is None


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True, available_apps=EVERY_APP)
@pytest.mark.parametrize("first", ["row", "webhook"])
def test_a_webhook_beside_the_answer_waits_for_it_and_neither_is_missed(upload: Upload, first: str) -> None:
    answer = asked(upload, row(ticket="team"))
    steps = {
        "row": lambda: answer.keep(attempt=1),
        "webhook": lambda: enrolment.settle("acme", said(upload, "completed")),
    }
    results: dict[str, bool] = {}
    ended = Signal()

    def run_second() -> None:
        with transaction.atomic():
            [second] = set(steps) - {first}
            results[second] = steps[second]()
        connection.close()
        ended.set()

    with transaction.atomic():
        results[first] = steps[first]()
        thread = Thread(target=run_second)
        thread.start()
        stays(lambda: not ended.is_set(), "the second one waits", seconds=0.5)
    thread.join()
    assert sorted(results.values()) == [False, True]
    assert Registration.objects.get().paid_at is not None


def post(tenant: Tenant, **changed: Any) -> HttpResponse:
    data = {"order_id": "o", "amount": "39.00", "currency": "EUR", **changed}
    body = json.dumps(
        {
            "id": f"evt_{changed['status']}",
            "type": f"payment.{changed['status']}",
            "created": int(time.time()),
            "data": data,
        }
    ).encode()
    headers = {"X-Webhook-Signature": sign(tenant.secret, body)}
    return Client(enforce_csrf_checks=True).post(  # type: ignore[return-value]
        f"/webhooks/{tenant.slug}/registrations/", body, content_type="application/json", headers=headers
    )


@pytest.mark.urls("example_project.urls")
@pytest.mark.usefixtures("eager")
def test_webhooks_twice_and_out_of_order_print_one_badge(
    tenant: Tenant, upload: Upload, printer: PrinterServer, gateway: GatewayServer
) -> None:
    enrolled(upload, row(ticket="team"))
    name = reference(upload)
    answers = [post(tenant, payment_id=name, status=each) for each in ("completed", "pending") * 2]
    assert [answer.status_code for answer in answers] == [202] * 4
    assert Payment.objects.get().status == Status.COMPLETED
    assert printer.store.sheets() == [name]
    assert Badge.objects.get().registration == Registration.objects.get()
    assert gateway.store.stats()["raw_calls"] == 1, "the webhook has charged"


@pytest.mark.urls("example_project.urls")
def test_a_webhook_with_a_wrong_signature_pays_nothing(tenant: Tenant, upload: Upload) -> None:
    enrolled(upload, row(ticket="team"))
    tenant.secret = "guessed"
    assert post(tenant, payment_id=reference(upload), status="completed").status_code == 401
    assert not IdempotencyKey.objects.filter(task=take_payment.name).exists()


@pytest.mark.usefixtures("eager")
@pytest.mark.django_db(transaction=True, available_apps=EVERY_APP)
def test_a_badge_whose_sheet_was_not_noted_does_not_come_out_again(
    upload: Upload, printer: PrinterServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    enrolled(upload, row())
    create = Badge.objects.create
    failures = [RuntimeError("the process is gone")]

    def failing_once(**facts: Any) -> Badge:
        if failures:
            raise failures.pop()
        return create(**facts)

    monkeypatch.setattr(Badge.objects, "create", failing_once)
    call = {"tenant": "acme", "reference": reference(upload)}
    print_badge.apply_async(kwargs=call)
    assert (len(printer.store.sheets()), Badge.objects.count()) == (1, 0)
    print_badge.apply_async(kwargs=call)
    print_badge.apply_async(kwargs=call)
    assert (printer.store.sheets(), printer.store.calls()) == ([reference(upload)], 2)
    assert Badge.objects.get().sheet == 1


@pytest.mark.parametrize("body", ["", "{", "[]", "null", {"badge": "b"}, {"badge": 1, "text": "x"}])
def test_the_printer_refuses_what_is_no_job_and_counts_no_sheet(printer: PrinterServer, body: object) -> None:
    connection_ = HTTPConnection("127.0.0.1", printer.server_port, timeout=5)
    text = body if isinstance(body, str) else json.dumps(body)
    connection_.request("POST", "/badges", text, {"Idempotency-Key": "k"})
    assert connection_.getresponse().status == 400
    connection_.close()
    assert printer.store.sheets() == []


def test_a_printer_that_is_off_or_refuses_is_unavailable(
    printer: PrinterServer, example_settings: Settings
) -> None:
    with pytest.raises(PrinterUnavailable, match="400"):
        printer_client.print_badge(badge="b", text="t", idempotency_key="")
    example_settings.PRINTER_URL = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(PrinterUnavailable):
        printer_client.print_badge(badge="b", text="t", idempotency_key="k")
    assert printer.store.sheets() == []
