"""The periodic jobs: each occurrence once, with all that belongs to it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from celery.schedules import crontab
from django.utils import timezone

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from example_project import celery_config
from example_project.books import tasks
from example_project.books.models import JobRun, Reconciliation, Reminder
from example_project.gateway.server import GatewayServer
from example_project.payments.models import Charge, Payment, Status, Tenant
from tests.support.ledger.quick import EVERY_APP

pytestmark = pytest.mark.usefixtures("eager", "gateway", "tenant")
DUE = "2026-01-05T03:30:00+00:00"


def as_beat(task: Any, due: str = DUE) -> Any:
    """As beat sends it: the occurrence is the key."""
    return task.apply_async(idempotency_key=f"beat:1:{due}", headers={"periodic_due_at": due}).get()


def charged(gateway: GatewayServer, key: str, reference: str) -> str:
    order = {"reference": reference, "amount": "9.90", "currency": "EUR"}
    return str(gateway.store.charge(key, order).body["id"])


def booked(reference: str) -> None:
    Charge.objects.create(
        tenant_id="acme", payment_id="p", event_id="e", amount=1, currency="EUR", attempt=1,
        gateway_reference=reference,
    )  # fmt: skip


@pytest.mark.django_db(transaction=True, available_apps=EVERY_APP)
def test_each_tenant_is_compared_with_the_gateway_once_an_occurrence(gateway: GatewayServer) -> None:
    Tenant.objects.create(slug="other", name="Other")
    booked(charged(gateway, "a", "acme/p1"))
    charged(gateway, "b", "acme/p2")
    charged(gateway, "c", "other/p3")
    booked("unknown there")
    for _ in range(2):
        as_beat(tasks.reconcile_all)
    found = Reconciliation.objects.values_list("tenant", "agreed", "only_here", "only_at_gateway")
    assert list(found) == [("acme", 1, 1, 1), ("other", 0, 0, 1)]
    (run,) = JobRun.objects.all()
    assert (run.job, run.due_at.isoformat(), run.outcome) == ("reconcile_all", DUE, "2 tenants")
    assert set(IdempotencyKey.objects.values_list("state", flat=True)) == {State.SUCCEEDED}


@pytest.mark.django_db
def test_tenants_with_pending_payments_are_reminded_once_an_occurrence() -> None:
    for number, status in enumerate([Status.PENDING, Status.PENDING, Status.COMPLETED]):
        Payment.objects.create(
            tenant_id="acme", payment_id=str(number), order_id="o", amount=1, currency="EUR", status=status,
            last_event="e", updated_at=timezone.now(),
        )  # fmt: skip
    for _ in range(2):
        as_beat(tasks.remind)
    assert [reminder.text for reminder in Reminder.objects.all()] == ["2 payments are pending"]
    as_beat(tasks.remind, "2026-01-06T09:00:00+00:00")
    assert Reminder.objects.count() == 2


@pytest.mark.django_db
def test_old_reminders_are_removed_in_bites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "BITE", 2)
    made = Reminder.objects.bulk_create([Reminder(tenant_id="acme", text=str(number)) for number in range(4)])
    old = Reminder.objects.filter(pk__in=[reminder.pk for reminder in made[:3]])
    old.update(created_at=timezone.now() - tasks.KEPT - timedelta(days=1))
    as_beat(tasks.tidy)
    assert Reminder.objects.count() == 2
    as_beat(tasks.tidy, "2026-01-06T04:15:00+00:00")
    assert [reminder.text for reminder in Reminder.objects.all()] == ["3"]


def test_entries_of_the_settings_name_tasks_and_come_nightly_or_on_weekdays() -> None:
    names = {entry["task"] for entry in celery_config.beat_schedule.values()}
    assert names == {tasks.reconcile_all.name, tasks.remind.name, tasks.tidy.name}
    assert all(isinstance(entry["schedule"], crontab) for entry in celery_config.beat_schedule.values())


@pytest.mark.django_db
def test_the_books_are_opened_at_the_time_that_was_set() -> None:
    pytest.importorskip("django_celery_beat")
    from example_project.books.once import open_the_books_at  # noqa: PLC0415  it may not be installed

    moment = timezone.now() + timedelta(days=1)
    entry = open_the_books_at(moment)
    assert (entry.task, entry.one_off, entry.schedule.clocked_time) == (
        tasks.open_the_books.name,
        True,
        moment,
    )
    as_beat(tasks.open_the_books, moment.isoformat())
    assert JobRun.objects.get().due_at == moment
