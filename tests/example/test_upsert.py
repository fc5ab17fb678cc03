"""Whatever the order in which a payment's events arrive, the furthest status stays."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from itertools import permutations

import pytest
from django.db import connection, transaction

from example_project.payments.events import STATUSES, PaymentEvent
from example_project.payments.models import Payment, Status, Tenant
from tests.support.ledger.quick import EVERY_APP
from tests.support.ledger.slow_server import Server
from tests.support.waiting import PATIENCE


def event(status: str, *, number: int = 1) -> PaymentEvent:
    return PaymentEvent(f"evt_{status}_{number}", "pay_1", "order-1", Decimal("19.90"), "EUR", status)


def current(tenant: Tenant) -> str:
    return Status(Payment.objects.get(tenant=tenant, payment_id="pay_1").status).label


@pytest.mark.parametrize("order", list(permutations(STATUSES)), ids="-".join)
def test_the_furthest_status_wins_in_every_order(tenant: Tenant, order: tuple[str, ...]) -> None:
    for position, status in enumerate(order):
        stored = Payment.objects.record(tenant.slug, event(status))

        furthest = max(order[: position + 1], key=STATUSES.index)
        assert current(tenant) == furthest
        assert stored == (status == furthest)


def test_the_same_status_again_changes_nothing(tenant: Tenant) -> None:
    assert Payment.objects.record(tenant.slug, event("completed", number=1))
    assert not Payment.objects.record(tenant.slug, event("completed", number=2))

    assert Payment.objects.get().last_event == "evt_completed_1"


def test_the_same_payment_id_of_two_tenants_is_two_payments(tenant: Tenant) -> None:
    other = Tenant.objects.create(slug="delta", name="Delta Bikes")
    Payment.objects.record(tenant.slug, event("completed"))
    Payment.objects.record(other.slug, event("pending"))

    assert current(tenant) == "completed"
    assert current(other) == "pending"


def record_elsewhere(tenant: Tenant, status: str) -> None:
    try:
        Payment.objects.record(tenant.slug, event(status))
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True, available_apps=EVERY_APP)
@pytest.mark.postgresql
@pytest.mark.parametrize(("first", "second"), [("pending", "completed"), ("completed", "pending")])
def test_two_first_events_at_once_leave_the_furthest_status(first: str, second: str) -> None:
    tenant = Tenant.objects.create(slug="acme", name="Acme Tools")
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            Payment.objects.record(tenant.slug, event(first))
            other = pool.submit(record_elsewhere, tenant, second)
            assert Server("default").wait_until_held_up()
        other.result(timeout=PATIENCE)

    assert current(tenant) == "completed"
