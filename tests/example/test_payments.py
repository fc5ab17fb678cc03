"""The tasks against a real gateway, eagerly: one charge, one booking and one notification for an event."""

from __future__ import annotations

from typing import Any

import pytest

from django_idempotent_tasks.models import DeadLetter, FailedJob, IdempotencyKey
from django_idempotent_tasks.states import Category, Reason, State
from example_project.demo.traffic import OVERSIZED_AMOUNT
from example_project.gateway.server import Behaviour, GatewayServer
from example_project.gateway.store import DECLINED_AMOUNT, OUTAGE_AMOUNT
from example_project.payments.models import Charge, Notification, Payment, Status, Tenant, Total
from example_project.payments.tasks import handle_event

pytestmark = pytest.mark.usefixtures("tenant", "gateway", "eager")


def send(event_id: str = "evt_1", status: str = "completed", **changed: str) -> Any:
    kwargs = {
        "tenant": "acme",
        "event_id": event_id,
        "payment_id": "pay_1",
        "order_id": "order-1",
        "amount": "19.90",
        "currency": "EUR",
        "status": status,
        **changed,
    }
    return handle_event.apply_async(kwargs=kwargs, idempotency_key=event_id, scope=kwargs["tenant"])


def test_a_completed_payment_is_charged_booked_and_notified(gateway: GatewayServer) -> None:
    result = send().get()

    [charge] = Charge.objects.all()
    [made] = gateway.store.charges()
    assert result == {"charge": made["id"], "stored": True}
    assert (charge.gateway_reference, str(charge.amount), charge.attempt) == (made["id"], "19.90", 1)
    assert made["reference"] == "acme/pay_1"
    assert Payment.objects.get().status == Status.COMPLETED
    assert Notification.objects.get().text == "Payment pay_1 was charged: 19.90 EUR"


def test_the_totals_of_a_tenant_are_computed_after_each_charge(tenant: Tenant) -> None:
    send()
    send("evt_2", payment_id="pay_2", amount="0.10")
    send("evt_3", payment_id="pay_3", amount="7.00", currency="CHF")

    totals = Total.objects.order_by("currency").values_list("tenant", "currency", "charges", "amount")
    assert [(*each[:3], str(each[3])) for each in totals] == [
        (tenant.pk, "CHF", 1, "7.00"),
        (tenant.pk, "EUR", 2, "20.00"),
    ]


def test_the_same_event_again_does_nothing(gateway: GatewayServer) -> None:
    first = send()
    repeated = send()

    assert (repeated.duplicate, repeated.id) == (True, first.id)
    assert gateway.store.stats()["raw_calls"] == 1
    assert Charge.objects.count() == Notification.objects.count() == 1


@pytest.mark.parametrize("status", ["pending", "failed", "refunded"])
def test_only_completed_payments_are_charged(gateway: GatewayServer, status: str) -> None:
    assert send(status=status).get() == {"charge": None, "stored": True}

    assert gateway.store.stats()["raw_calls"] == 0
    assert not Charge.objects.exists()
    assert Payment.objects.get().get_status_display() == status


def test_a_late_pending_is_accepted_and_changes_nothing() -> None:
    send("evt_2", "completed")

    assert send("evt_1", "pending").get() == {"charge": None, "stored": False}
    assert Payment.objects.get().status == Status.COMPLETED


def test_a_declined_card_ends_as_expected_without_a_booking_and_needs_nobody(gateway: GatewayServer) -> None:
    result = send(amount=DECLINED_AMOUNT)

    key = IdempotencyKey.objects.get()
    assert (result.state, key.state, key.reason) == ("FAILURE", State.FAILED, Reason.EXPECTED)
    assert (key.category, DeadLetter.objects.exists()) == (Category.EXPECTED, False)
    assert gateway.store.stats() == {"charges": 0, "raw_calls": 1, "keys_called_twice": 0}
    assert not Charge.objects.exists()
    assert not Payment.objects.exists()


def test_every_retry_asks_for_the_same_charge(gateway: GatewayServer) -> None:
    gateway.behaviour = Behaviour(latency=(0, 0), unavailable=1)

    assert send().state == "FAILURE"
    assert gateway.store.stats() == {"charges": 0, "raw_calls": 6, "keys_called_twice": 1}
    assert IdempotencyKey.objects.get().reason == Reason.RETRIES_USED_UP


@pytest.mark.parametrize(
    ("amount", "state", "category", "attempts"),
    [
        (OUTAGE_AMOUNT, State.FAILED, Category.RETRYABLE, 6),
        (OVERSIZED_AMOUNT, State.REVIEW, Category.MANUAL_REVIEW, 1),
    ],
    ids=["outage", "oversized"],
)
def test_what_fails_is_a_dead_letter_of_its_category_with_a_record_of_each_attempt(
    amount: str, state: State, category: Category, attempts: int
) -> None:
    send(amount=amount)

    letter = DeadLetter.objects.get()
    assert (letter.state, letter.category) == (state, category)
    assert FailedJob.objects.filter(digest=letter.digest).count() == attempts
    assert not Charge.objects.exists()


def test_the_same_event_id_of_two_tenants_is_two_events(gateway: GatewayServer) -> None:
    Tenant.objects.create(slug="delta", name="Delta Bikes")
    send(tenant="acme")

    assert send(tenant="delta").get()["stored"]
    assert gateway.store.stats() == {"charges": 2, "raw_calls": 2, "keys_called_twice": 0}
    assert Charge.objects.count() == Notification.objects.count() == 2
