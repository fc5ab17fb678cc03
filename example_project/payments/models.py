"""Tenants, the latest known state of their payments, and the ledger of money that was moved."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from django.db import models
from django.utils import timezone

if TYPE_CHECKING:
    from .events import PaymentEvent


def new_secret() -> str:
    """Return a secret that a tenant signs webhooks with."""
    return secrets.token_hex(32)


class Tenant(models.Model):
    """A shop that sends webhooks. The slug is its scope in the ledger of keys."""

    slug = models.SlugField(primary_key=True, max_length=50)
    name = models.CharField(max_length=100)
    secret = models.CharField(max_length=64, default=new_secret, editable=False)

    class Meta:
        ordering = ("slug",)

    def __str__(self) -> str:
        return self.name


class ReceivedEvent(models.Model):
    """A webhook that was accepted, written together with the reservation of its task."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    event_id = models.CharField(max_length=100)
    payment_id = models.CharField(max_length=100)
    task_id = models.CharField(max_length=255)
    received_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-received_at",)
        constraints = (models.UniqueConstraint(fields=["tenant", "event_id"], name="one_row_per_event"),)

    def __str__(self) -> str:
        return f"{self.tenant_id} {self.event_id}"


class Status(models.IntegerChoices):
    """How far a payment has come. Events arrive in any order; the highest number is the truth."""

    PENDING = 10, "pending"
    FAILED = 20, "failed"
    COMPLETED = 30, "completed"
    REFUNDED = 40, "refunded"


class PaymentManager(models.Manager["Payment"]):
    """Adds the guarded upsert."""

    def record(self, tenant: str, event: PaymentEvent) -> bool:
        """Store what ``event`` says unless something later is known, and return whether it was stored.

        Both statements wait for a concurrent transaction and judge what it committed, so two events
        of one payment may be recorded at the same time. The same works on every database.
        """
        facts = {
            "order_id": event.order_id,
            "amount": event.amount,
            "currency": event.currency,
            "status": Status[event.status.upper()],
            "last_event": event.event_id,
            "updated_at": timezone.now(),
        }
        self.bulk_create(
            [Payment(tenant_id=tenant, payment_id=event.payment_id, **facts)], ignore_conflicts=True
        )
        known = self.filter(tenant_id=tenant, payment_id=event.payment_id)
        known.filter(status__lt=facts["status"]).update(**facts)
        return known.filter(last_event=event.event_id).exists()


class Payment(models.Model):
    """The latest known state of one payment of a tenant."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    payment_id = models.CharField(max_length=100)
    order_id = models.CharField(max_length=100)
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    currency = models.CharField(max_length=3)
    status = models.SmallIntegerField(choices=Status.choices)
    last_event = models.CharField(max_length=100)
    updated_at = models.DateTimeField()

    objects = PaymentManager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=("tenant", "payment_id"), name="one_row_per_payment")]

    def __str__(self) -> str:
        return f"{self.payment_id} {self.get_status_display()}"


class Charge(models.Model):
    """Money that the gateway moved.

    Without a unique constraint on purpose: nothing but the idempotency of the task keeps a payment
    from being booked twice here, so a count of the rows proves or refutes it.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    payment_id = models.CharField(max_length=100)
    event_id = models.CharField(max_length=100)
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    currency = models.CharField(max_length=3)
    gateway_reference = models.CharField(max_length=100)
    attempt = models.PositiveSmallIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.payment_id} {self.amount} {self.currency}"


class Total(models.Model):
    """What a tenant's charges in one currency come to; computed from them after each charge."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    currency = models.CharField(max_length=3)
    charges = models.PositiveIntegerField()
    amount = models.DecimalField(max_digits=14, decimal_places=2)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("tenant", "currency"), name="one_total_per_currency"),)

    def __str__(self) -> str:
        return f"{self.tenant_id} {self.amount} {self.currency}"


class Notification(models.Model):
    """A message to the tenant about a charge; no unique constraint, for the same reason."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    payment_id = models.CharField(max_length=100)
    text = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.text
