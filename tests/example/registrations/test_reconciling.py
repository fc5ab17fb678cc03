"""Payments that are open for long are asked for again: a dry run first, each once, nothing charged twice."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.utils import timezone

from django_idempotent_tasks.models import IdempotencyKey
from example_project.gateway.server import Behaviour, GatewayServer
from example_project.payments.models import Charge, Payment, Status
from example_project.printer.server import PrinterServer
from example_project.registrations.models import Badge, Registration, Upload
from example_project.registrations.tasks import ask_again
from tests.example.registrations.test_enrolment import enrolled, row


def reconcile(*words: str) -> str:
    printed = StringIO()
    call_command("reconcile_registrations", *words, stdout=printed)
    return printed.getvalue()


def open_for(upload: Upload, number: int, minutes: int, ticket: str = "team") -> Registration:
    enrolled(upload, row(number, ticket=ticket))
    found = Registration.objects.filter(email=f"a{number}@x.org")
    found.update(created_at=timezone.now() - timedelta(minutes=minutes))
    return found.get()


@pytest.fixture
def old(upload: Upload, gateway: GatewayServer) -> Registration:  # noqa: ARG001  it is asked
    """One that is pending for over an hour; beside it one that is not, one that failed, one that is paid."""
    open_for(upload, 2, 50)
    failed = open_for(upload, 3, 90)
    Payment.objects.filter(payment_id=failed.reference).update(status=Status.FAILED)
    open_for(upload, 4, 90, ticket="standard")
    return open_for(upload, 1, 61)


@pytest.mark.usefixtures("old")
def test_without_yes_it_only_says_how_many(gateway: GatewayServer) -> None:
    before = gateway.store.stats()
    assert "1 payments are pending for over 60 minutes" in reconcile()
    assert "2 payments are pending for over 45 minutes" in reconcile("--minutes", "45")
    assert gateway.store.stats() == before
    assert not IdempotencyKey.objects.filter(task=ask_again.name).exists()


def test_with_yes_it_asks_once_while_it_is_being_asked(old: Registration) -> None:
    assert "asked for 1 payments; 0 are" in reconcile("--yes")
    assert "asked for 0 payments; 1 are being asked for already" in reconcile("--yes")
    row = IdempotencyKey.objects.get(task=ask_again.name)
    assert (row.scope, row.key_text) == ("acme", f"reference={old.reference}")


@pytest.mark.usefixtures("eager")
def test_what_is_settled_by_now_is_paid_and_gets_its_badge_and_nothing_is_charged_twice(
    old: Registration, printer: PrinterServer, gateway: GatewayServer
) -> None:
    charges = len(gateway.store.charges())
    assert "asked for 1 payments" in reconcile("--yes")
    old.refresh_from_db()
    assert old.paid_at is not None
    assert printer.store.sheets() == [old.reference]
    assert Badge.objects.get().registration == old
    assert len(gateway.store.charges()) == Charge.objects.count() == charges
    assert "0 payments are pending" in reconcile()


@pytest.mark.usefixtures("eager", "printer")
def test_a_provider_that_is_still_away_is_asked_again_the_next_time(
    old: Registration, gateway: GatewayServer
) -> None:
    gateway.behaviour = Behaviour(latency=(0, 0), unavailable=1)
    reconcile("--yes")
    old.refresh_from_db()
    assert old.paid_at is None
    gateway.behaviour = Behaviour(latency=(0, 0))
    assert "asked for 1 payments" in reconcile("--yes")
    old.refresh_from_db()
    assert old.paid_at is not None
