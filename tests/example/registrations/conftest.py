"""An event with tickets, its upload, and a printer of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from example_project.payments.models import Tenant
from example_project.printer.server import PrinterServer
from example_project.registrations.models import Event, Ticket, Upload
from tests.example.registrations.desk import Desk

if TYPE_CHECKING:
    from pytest_django import Settings


@pytest.fixture
def event(tenant: Tenant) -> Event:
    """An event with three tickets, of which one is paid by debit and one has two places."""
    event = Event.objects.create(tenant=tenant, title="Pycon")
    for code, price, places, by_debit in (
        ("standard", "49.00", 20, False),
        ("team", "39.00", 20, True),
        ("vip", "199.00", 2, False),
    ):
        Ticket.objects.create(event=event, code=code, price=price, places=places, by_debit=by_debit)
    return event


@pytest.fixture
def upload(event: Event) -> Upload:
    return Upload.objects.create(event=event, digest="d" * 64, name="attendees.csv", rows=9, by="ann")


@pytest.fixture
def printer(tmp_path: Path, example_settings: Settings) -> Iterator[PrinterServer]:
    with PrinterServer(("127.0.0.1", 0), tmp_path / "printer.sqlite3") as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        example_settings.PRINTER_URL = f"http://127.0.0.1:{server.server_port}"
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def desk(event: Event, example_settings: Settings) -> Desk:
    example_settings.LOGIN_URL = "login"
    return Desk(event)
