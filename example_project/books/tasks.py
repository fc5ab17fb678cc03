"""The periodic jobs. The occurrence is the key of each, so that ``key=()`` is all that they have to say."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from celery import shared_task
from django.conf import settings
from django.db.models import Count
from django.utils import timezone

from django_idempotent_tasks import IdempotentTask
from example_project.payments import gateway_client
from example_project.payments.gateway_client import GatewayUnavailable
from example_project.payments.models import Charge, Payment, Status, Tenant
from example_project.payments.tasks import DATABASE_DOWN

from .models import JobRun, Reconciliation, Reminder

#: How long runs and reminders are kept, and rows of one bite of a clean-up.
KEPT = timedelta(days=90)
BITE = 1000


def job(function: Callable[..., None]) -> Any:
    """A job is one transaction with its key: it happened or it did not, and nothing is half done."""
    task: Any = shared_task(
        base=IdempotentTask,
        bind=True,
        reserve=True,
        mode="atomic",
        key=(),
        max_retries=5,
        retry_backoff=True,
        autoretry_for=DATABASE_DOWN,
    )
    return task(function)


@job
def reconcile_all(self: Any) -> None:
    """Nightly: ask for one comparison a tenant, each with a key of its own, together with this run's row."""
    due = _due(self)
    tenants = list(Tenant.objects.values_list("slug", flat=True))
    for tenant in tenants:
        reconcile.submit(kwargs={"tenant": tenant, "due": due.isoformat()})
    _note(self, f"{len(tenants)} tenants")


@shared_task(
    base=IdempotentTask,
    bind=True,
    reserve=True,
    key="due",
    scope="tenant",
    max_retries=5,
    retry_backoff=True,
    retry_backoff_max=getattr(settings, "PAYMENTS_LONGEST_BACKOFF", 600),
    autoretry_for=(GatewayUnavailable, *DATABASE_DOWN),
)
def reconcile(self: Any, *, tenant: str, due: str) -> None:
    """Compare what the gateway has charged with what is booked here.

    It only reads at the gateway, which may be done again; the row is written once, with the key.
    """
    there = gateway_client.charges(tenant)
    with self.idempotency.complete() as done:
        here = set(Charge.objects.filter(tenant=tenant).values_list("gateway_reference", flat=True))
        Reconciliation.objects.create(
            tenant_id=tenant,
            due_at=datetime.fromisoformat(due),
            agreed=len(here & there),
            only_here=len(here - there),
            only_at_gateway=len(there - here),
        )
        done.result = {"only_here": sorted(here - there), "only_at_gateway": sorted(there - here)}


@job
def remind(self: Any) -> None:
    """On weekdays: tell each tenant how many payments are still pending."""
    pending = Payment.objects.filter(status=Status.PENDING).values("tenant").annotate(number=Count("id"))
    reminders = [
        Reminder(tenant_id=row["tenant"], text=f"{row['number']} payments are pending") for row in pending
    ]
    Reminder.objects.bulk_create(reminders)
    _note(self, f"{len(reminders)} tenants reminded")


@job
def tidy(self: Any) -> None:
    """Nightly: remove what is old, one bite; what is left waits for the next night."""
    old = Reminder.objects.filter(created_at__lt=timezone.now() - KEPT).order_by("created_at")
    deleted, _ = Reminder.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:BITE])).delete()
    _note(self, f"{deleted} reminders removed")


@job
def open_the_books(self: Any) -> None:
    """Once, at a time that somebody has set: the first balance."""
    _note(self, f"{Charge.objects.count()} charges booked so far")


def _due(task: Any) -> datetime:
    """The nominal time, which beat sends along; without beat it is now."""
    request = task.request
    # A worker makes attributes of a message's headers; an eager call keeps them together.
    due = getattr(request, "periodic_due_at", None) or (request.headers or {}).get("periodic_due_at")
    return timezone.now() if due is None else datetime.fromisoformat(due)


def _note(task: Any, outcome: str) -> None:
    JobRun.objects.create(job=task.name.rpartition(".")[2], due_at=_due(task), outcome=outcome)
