"""The tasks: a chunk of an upload, its end, a payment's webhook, an open payment once more, and a badge."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from celery import shared_task
from django.conf import settings

from django_idempotent_tasks import IdempotentTask
from example_project.payments.events import PaymentEvent
from example_project.payments.gateway_client import CardDeclined, GatewayRefused, GatewayUnavailable
from example_project.payments.models import Notification
from example_project.payments.tasks import DATABASE_DOWN

from . import enrolment, printer_client
from .enrolment import DuplicateAttendee, SoldOut
from .models import Badge, Registration, Upload
from .printer_client import PrinterUnavailable
from .rows import BadRow

#: Of whatever asks somebody who may be away for a while.
PATIENT: dict[str, Any] = {
    "max_retries": 5,
    "retry_backoff": True,
    "retry_backoff_max": getattr(settings, "PAYMENTS_LONGEST_BACKOFF", 600),
}


@shared_task(
    base=IdempotentTask,
    bind=True,
    reserve=True,
    # What becomes of one record, by its error; the others of its chunk go on.
    permanent_errors=(BadRow, CardDeclined, GatewayRefused),
    autoretry_for=(GatewayUnavailable, *DATABASE_DOWN),
    review_errors=(DuplicateAttendee, SoldOut),
    # A chunk asks the provider 50 times, each for at most GATEWAY_TIMEOUT seconds.
    soft_time_limit=300,
    time_limit=330,
    # Only those that the provider did not answer are tried again: longer than its usual outages last.
    **{**PATIENT, "max_retries": 10},
)
def register(self: Any, records: Sequence[Any], *, upload: str) -> None:
    """Register the attendees of one chunk. What is kept of each is one transaction with its outcome."""
    work = self.idempotency
    found = Upload.objects.select_related("event").get(pk=upload)
    tickets = {ticket.code: ticket for ticket in found.event.tickets.all()}
    for record in work.records(records):
        answer = enrolment.ask(found, tickets, record.value)
        with record:
            if answer.keep(attempt=work.attempt):
                ask_for_badge(found.event.tenant_id, enrolment.reference_of(found, record.value["line"]))


@shared_task(base=IdempotentTask, mode="atomic", reserve=True, **PATIENT, autoretry_for=DATABASE_DOWN)
def upload_finished(batch: str, *, upload: str) -> None:
    """Tell the tenant how an upload has ended, once: one transaction, and nothing outside it."""
    found = Upload.objects.select_related("event").get(pk=upload)
    Upload.objects.filter(pk=upload).update(batch=batch)
    registered = found.registration_set.filter(accepted_at__isnull=False)
    Notification.objects.create(
        tenant_id=found.event.tenant_id,
        payment_id=f"upload-{found.pk.hex}",
        text=f"{found.name}: {registered.count()} of {found.rows} rows are registered",
    )


@shared_task(
    base=IdempotentTask,
    mode="atomic",
    reserve=True,
    key="event_id",
    scope="tenant",
    **PATIENT,
    autoretry_for=DATABASE_DOWN,
)
def take_payment(
    *,
    tenant: str,
    event_id: str,
    payment_id: str,
    order_id: str,
    amount: str,
    currency: str,
    status: str,
) -> None:
    """Take in one webhook of a registration's payment, in whichever order and however often they come."""
    event = PaymentEvent(event_id, payment_id, order_id, Decimal(amount), currency, status)
    if enrolment.settle(tenant, event):
        ask_for_badge(tenant, payment_id)


@shared_task(
    base=IdempotentTask,
    bind=True,
    reserve=True,
    key="reference",
    scope="tenant",
    # Unique while it is unfinished: what is still open in an hour is asked for again.
    retention=0,
    autoretry_for=(GatewayUnavailable, *DATABASE_DOWN),
    **PATIENT,
)
def ask_again(self: Any, *, tenant: str, reference: str) -> None:
    """Ask the provider once more for a payment that is open for long: its webhook may be lost.

    The provider knows the payment by its key, and answers how far it is; nothing is charged twice.
    """
    known = Registration.objects.select_related("event", "ticket").get(
        event__tenant=tenant, reference=reference
    )
    try:
        status = enrolment.ask_for_payment(known).status
    except (CardDeclined, GatewayRefused):
        status = "failed"
    with self.idempotency.complete() as done:
        if enrolment.settle(tenant, enrolment.as_event(known, status)):
            ask_for_badge(tenant, reference)
        done.result = {"status": status}


@shared_task(
    base=IdempotentTask,
    bind=True,
    reserve=True,
    key="reference",
    scope="tenant",
    autoretry_for=(PrinterUnavailable, *DATABASE_DOWN),
    **PATIENT,
)
def print_badge(self: Any, *, tenant: str, reference: str) -> None:
    """Print the badge of one registration, and note its sheet, once."""
    known = Registration.objects.select_related("ticket").get(event__tenant=tenant, reference=reference)
    sheet = printer_client.print_badge(
        badge=reference,
        text=f"{known.name}, {known.ticket} x {known.quantity}",
        # The same in every attempt, so that a sheet whose number was lost does not come out again.
        idempotency_key=self.idempotency.downstream_key("badge"),
    )
    with self.idempotency.complete():
        Badge.objects.create(registration=known, sheet=sheet, attempt=self.idempotency.attempt)


def ask_for_badge(tenant: str, reference: str) -> None:
    """Reserve the badge in the open transaction: paid and to be printed, or neither."""
    print_badge.submit(kwargs={"tenant": tenant, "reference": reference})
