"""Registers one attendee: hold a place, ask the provider, keep what it said. Each is safe to be done again.

The hold is committed before the provider is asked. So who is charged has a place, whatever dies in between:
a later attempt finds the hold, asks under the same key, and gets the same answer. No transaction is open
while the provider is being waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from example_project.payments import gateway_client
from example_project.payments.events import PaymentEvent
from example_project.payments.gateway_client import CardDeclined, Charged, GatewayRefused, GatewayUnavailable
from example_project.payments.models import Charge, Payment, Status

from .models import Registration, Ticket, Upload
from .rows import BadRow, Row, read_row


class DuplicateAttendee(Exception):
    """The event has this attendee already. Somebody has to look whether it is the same person."""


class SoldOut(Exception):
    """There are not enough places left. Somebody has to find places, or to say no."""


#: What is the end of one row, or of one try at it; anything else ends the attempt.
OF_THE_ROW = (BadRow, DuplicateAttendee, SoldOut, CardDeclined, GatewayRefused, GatewayUnavailable)


@dataclass(frozen=True, slots=True)
class Answer:
    """What has become of a row so far: a hold and what the provider said of it, or why there is none."""

    registration: Registration | None = None
    charged: Charged | None = None
    error: Exception | None = None

    def keep(self, *, attempt: int) -> bool:
        """Book it, in the open transaction; raises what refused it. Returns whether it is paid by this."""
        if self.registration is None or self.charged is None:
            raise self.error or RuntimeError("neither an answer nor an error")
        known, tenant = self.registration, self.registration.event.tenant_id
        Registration.objects.filter(pk=known.pk).update(accepted_at=timezone.now())
        Charge.objects.create(
            tenant_id=tenant,
            payment_id=known.reference,
            event_id=f"line-{known.line}",
            amount=Decimal(known.amount),
            currency=known.event.currency,
            gateway_reference=self.charged.reference,
            attempt=attempt,
        )
        return settle(tenant, as_event(known, self.charged.status))


def ask(upload: Upload, tickets: Mapping[str, Ticket], value: Mapping[str, Any]) -> Answer:
    """Hold the place that a row asks for, and ask the provider. What is wrong is in the answer."""
    try:
        row = read_row(value, tickets)
        known = hold(upload, tickets[row.ticket], row)
        try:
            return Answer(known, ask_for_payment(known))
        except (CardDeclined, GatewayRefused):
            release(known)
            raise
    except OF_THE_ROW as error:
        return Answer(error=error)


def hold(upload: Upload, ticket: Ticket, row: Row) -> Registration:
    """Write the attendee down and take the places, or return what an earlier attempt has written."""
    registration = Registration(
        event=upload.event,
        upload=upload,
        ticket=ticket,
        line=row.line,
        reference=reference_of(upload, row.line),
        email=row.email,
        name=row.name,
        quantity=row.quantity,
    )
    free = Ticket.objects.filter(pk=ticket.pk, places__gte=row.quantity)
    refusal: Exception = SoldOut(f"{ticket} has not {row.quantity} places left")
    try:
        # In this order: MariaDB locks the ticket of a new row for reading, and two would wait for each other.
        with transaction.atomic():
            if free.update(places=F("places") - row.quantity):
                registration.save(force_insert=True)
                return registration
    except IntegrityError as error:
        refusal = error
    known = _known(registration)
    if known is None:
        raise refusal
    return known


def release(registration: Registration) -> None:
    """Give the places back of one that will never pay."""
    with transaction.atomic():
        if Registration.objects.filter(pk=registration.pk, accepted_at__isnull=True).delete()[0]:
            held = Ticket.objects.filter(pk=registration.ticket_id)
            held.update(places=F("places") + registration.quantity)


def reference_of(upload: Upload, line: int) -> str:
    """What the provider knows a row's payment by, however often and in whichever call the row is tried."""
    return f"reg-{upload.pk.hex}-{line}"


def ask_for_payment(registration: Registration) -> Charged:
    """Ask the provider for the payment; asked again, it is the same payment."""
    order = {
        "reference": f"{registration.event.tenant_id}/{registration.reference}",
        "amount": registration.amount,
        "currency": registration.event.currency,
        **({"method": "debit"} if registration.ticket.by_debit else {}),
    }
    # Not a downstream key of the call: a row that is redriven in a chunk of its own has another call.
    return gateway_client.ask_for_charge(order, f"charge-{registration.reference}")


def as_event(registration: Registration, status: str) -> PaymentEvent:
    """What the provider has answered, as its webhook would have said it."""
    name, currency = registration.reference, registration.event.currency
    return PaymentEvent(f"answer-{status}-{name}", name, name, Decimal(registration.amount), currency, status)


def settle(tenant: str, event: PaymentEvent) -> bool:
    """Record the event unless something later is known, and return whether it made a registration paid.

    The payment's row decides between a webhook and the answer that it races with: the second one waits for
    the first one's commit, and sees what it wrote.
    """
    stored = Payment.objects.record(tenant, event)
    paid = Payment.objects.filter(tenant=tenant, payment_id=event.payment_id, status=Status.COMPLETED)
    if not (event.status == "completed" if stored else paid.exists()):
        return False
    unpaid = Registration.objects.filter(
        event__tenant=tenant, reference=event.payment_id, paid_at__isnull=True
    )
    return bool(unpaid.update(paid_at=timezone.now()))


def _known(registration: Registration) -> Registration | None:
    """The attendee's registration, where it is that of this very row. Raises DuplicateAttendee else."""
    found = Registration.objects.filter(event=registration.event, email=registration.email)
    known = found.select_related("event", "ticket").first()
    if known is None or known.reference == registration.reference:
        return known
    raise DuplicateAttendee(f"{known.email} is registered already, as {known.name}, line {known.line}")
