"""Events with their tickets, uploads, and what came of their rows: registrations and badges."""

from __future__ import annotations

from uuid import uuid4

from django.conf import settings
from django.db import models

from example_project.payments.models import Tenant


class Event(models.Model):
    """What a tenant sells tickets for. Its organisers are the users who upload attendees."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    title = models.CharField(max_length=100)
    currency = models.CharField(max_length=3, default="EUR")
    organisers = models.ManyToManyField(settings.AUTH_USER_MODEL, blank=True)

    class Meta:
        ordering = ("title", "pk")

    def __str__(self) -> str:
        return self.title


class Ticket(models.Model):
    """A kind of ticket, as a row of an upload names it. A debit is settled days later, by a webhook."""

    event = models.ForeignKey(Event, on_delete=models.CASCADE, related_name="tickets")
    code = models.SlugField(max_length=20)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    #: Those that are left.
    places = models.PositiveIntegerField()
    by_debit = models.BooleanField(default=False)

    class Meta:
        ordering = ("pk",)
        constraints = (models.UniqueConstraint(fields=["event", "code"], name="one_ticket_per_code"),)

    def __str__(self) -> str:
        return self.code


class Upload(models.Model):
    """One file of one event. The same bytes sent again are the same upload, and so the same batch."""

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    event = models.ForeignKey(Event, on_delete=models.PROTECT)
    digest = models.CharField(max_length=64)
    name = models.CharField(max_length=100)
    rows = models.PositiveIntegerField()
    by = models.CharField(max_length=150)
    sent_at = models.DateTimeField(auto_now_add=True)
    #: None until the last of its chunks is written: sending the file again goes on.
    batch = models.UUIDField(null=True, editable=False)

    class Meta:
        ordering = ("-sent_at",)
        constraints = (models.UniqueConstraint(fields=["event", "digest"], name="one_upload_per_file"),)

    def __str__(self) -> str:
        return self.name


class Registration(models.Model):
    """An attendee of an event, from one line of an upload.

    The reference names upload and line, and so it is the same however often the line is tried: the
    provider knows the payment by it. It is a hold until the provider has taken the payment
    (``accepted_at``). ``paid_at`` is set once, by whatever says first that it is paid.
    """

    event = models.ForeignKey(Event, on_delete=models.PROTECT)
    upload = models.ForeignKey(Upload, on_delete=models.PROTECT)
    ticket = models.ForeignKey(Ticket, on_delete=models.PROTECT)
    line = models.PositiveIntegerField()
    reference = models.CharField(max_length=60)
    email = models.CharField(max_length=254)
    name = models.CharField(max_length=100)
    quantity = models.PositiveSmallIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)
    accepted_at = models.DateTimeField(null=True)
    paid_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("pk",)
        constraints = (
            models.UniqueConstraint(fields=["event", "email"], name="one_registration_per_attendee"),
            models.UniqueConstraint(fields=["reference"], name="one_registration_per_row"),
        )
        indexes = (models.Index(fields=["paid_at", "created_at"], name="registration_unpaid"),)

    def __str__(self) -> str:
        return f"{self.name} at {self.event_id}"

    @property
    def amount(self) -> str:
        """What is to be paid, as the provider takes it."""
        return f"{self.ticket.price * self.quantity:.2f}"


class Badge(models.Model):
    """A badge that came out of the printer.

    Without a unique constraint on purpose: nothing but the idempotency of the task keeps a badge from
    being noted twice here, so a count of the rows proves or refutes it.
    """

    registration = models.ForeignKey(Registration, on_delete=models.PROTECT)
    sheet = models.PositiveIntegerField()
    attempt = models.PositiveSmallIntegerField()
    printed_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"sheet {self.sheet}"
