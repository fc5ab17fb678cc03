"""Finds registrations whose payment is open for long, and asks the provider for them again."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Exists, F, OuterRef, QuerySet

from example_project.payments.models import Payment, Status

from .models import Registration
from .tasks import ask_again


def open_payments(before: datetime) -> QuerySet[Registration]:
    """The registrations from before that moment whose payment is pending; one that has failed is not."""
    pending = Payment.objects.filter(
        tenant=OuterRef("event__tenant"), payment_id=OuterRef("reference"), status=Status.PENDING
    )
    old = Registration.objects.filter(paid_at__isnull=True, created_at__lt=before, accepted_at__isnull=False)
    return old.filter(Exists(pending)).order_by("pk")


def ask_for_open_payments(before: datetime) -> tuple[int, int]:
    """Reserve a question for each of them. Returns how many are asked now, and how many were being asked."""
    found = open_payments(before).values("reference", tenant=F("event__tenant"))
    submitted = ask_again.submit_many({"kwargs": call} for call in found.iterator())
    asked = sum(each.created for each in submitted)
    return asked, len(submitted) - asked
