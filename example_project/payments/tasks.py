"""The tasks: one charges through the gateway and books it, one notifies the tenant, one adds up."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from celery import shared_task
from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.db.models import Count, Sum

from django_idempotent_tasks import DuplicateTask, IdempotentTask, ManualReview

from . import gateway_client
from .events import PaymentEvent
from .gateway_client import CardDeclined, GatewayRefused, GatewayUnavailable
from .models import Charge, Notification, Payment, Total

COMPLETED = "completed"

#: The database is away, or its connection was cut in the middle of the task: try again on a new one.
DATABASE_DOWN = (InterfaceError, OperationalError)

#: No order here is larger: somebody has to look before so much money moves.
LARGEST_AMOUNT = Decimal(10_000)


@shared_task(
    base=IdempotentTask,
    bind=True,
    reserve=True,
    max_retries=5,
    retry_backoff=True,
    retry_backoff_max=getattr(settings, "PAYMENTS_LONGEST_BACKOFF", 600),
    # DuplicateTask: another transaction that asks for the same totals has not ended for two seconds.
    autoretry_for=(GatewayUnavailable, DuplicateTask, *DATABASE_DOWN),
    permanent_errors=(GatewayRefused,),
    # A declined card is an outcome: the event ends, and nobody has to look at it.
    expected_errors=(CardDeclined,),
)
def handle_event(
    self: Any,
    *,
    tenant: str,
    event_id: str,
    payment_id: str,
    order_id: str,
    amount: str,
    currency: str,
    status: str,
) -> None:
    """Charge a completed payment once, and record the event and the charge together, once.

    A declined card ends the event at once, as expected. A gateway that stays away makes it a dead letter
    after the retries, and an amount that is too large waits in review.
    """
    event = PaymentEvent(event_id, payment_id, order_id, Decimal(amount), currency, status)
    reference = _charge(self, tenant, event) if status == COMPLETED else None
    with self.idempotency.complete() as done:
        stored = Payment.objects.record(tenant, event)
        if reference is not None:
            _book(self, tenant, event, reference)
        done.result = {"charge": reference, "stored": stored}


def _charge(task: Any, tenant: str, event: PaymentEvent) -> str:
    if event.amount > LARGEST_AMOUNT:
        raise ManualReview(f"{event.amount} {event.currency} is above {LARGEST_AMOUNT}: is the amount right?")
    return gateway_client.charge(
        reference=f"{tenant}/{event.payment_id}",
        amount=str(event.amount),
        currency=event.currency,
        # The same in every attempt, so that a charge whose answer was lost is not made again.
        idempotency_key=task.idempotency.downstream_key("charge"),
    )


def _book(task: Any, tenant: str, event: PaymentEvent, reference: str) -> None:
    Charge.objects.create(
        tenant_id=tenant,
        payment_id=event.payment_id,
        event_id=event.event_id,
        amount=event.amount,
        currency=event.currency,
        gateway_reference=reference,
        attempt=task.idempotency.attempt,
    )
    # Part of the same transaction: booked and to be notified, or neither. A second event of this
    # payment finds its notification accepted already.
    notify.submit(
        kwargs={
            "tenant": tenant,
            "payment_id": event.payment_id,
            "amount": str(event.amount),
            "currency": event.currency,
        }
    )
    # A total that is being computed may have been read too early: another one is computed after it.
    add_up.delay(tenant=tenant)


@shared_task(
    base=IdempotentTask,
    reserve=True,
    mode="atomic",
    key="payment_id",
    scope="tenant",
    max_retries=5,
    retry_backoff=True,
    autoretry_for=DATABASE_DOWN,
)
def notify(tenant: str, payment_id: str, amount: str, currency: str) -> None:
    """Tell the tenant about a charge, once for each payment: one transaction, and nothing outside it."""
    text = f"Payment {payment_id} was charged: {amount} {currency}"
    Notification.objects.create(tenant_id=tenant, payment_id=payment_id, text=text)


@shared_task(
    base=IdempotentTask,
    bind=True,
    reserve=True,
    key=(),
    scope="tenant",
    on_duplicate="follow_up",
    max_retries=5,
    retry_backoff=True,
    autoretry_for=DATABASE_DOWN,
)
def add_up(self: Any, tenant: str) -> None:
    """Compute a tenant's totals from the charges: never two at a time, and again after the last charge."""
    charges = Charge.objects.filter(tenant_id=tenant).values("currency")
    sums = list(charges.annotate(charges=Count("id"), total=Sum("amount")))
    with self.idempotency.complete():
        for each in sums:
            Total.objects.update_or_create(
                tenant_id=tenant,
                currency=each["currency"],
                defaults={"charges": each["charges"], "amount": each["total"]},
            )
