"""An upload before a real worker whose children are killed: sent twice, and each row registered once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.db import connection

from example_project.gateway.server import GatewayServer
from example_project.payments.models import Charge, Notification
from example_project.printer.server import PrinterServer
from example_project.registrations.models import Badge, Event, Registration
from example_project.registrations.report import Report, report_of
from tests.example.registrations.desk import Desk, attendees
from tests.example.test_study_plan_killed import ProjectWorker, broker
from tests.support.ledger.databases import url_of
from tests.support.ledger.quick import EVERY_APP
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker

if TYPE_CHECKING:
    from pytest_django import Settings

__all__ = ["broker"]

pytestmark = [
    pytest.mark.process,
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=EVERY_APP),
    pytest.mark.urls("example_project.urls"),
]
ROWS = 120
#: The number of its database on the broker's server: another file's worker must not take its messages.
BROKER = 8


@pytest.fixture
def worker(
    broker: str,
    gateway: GatewayServer,
    printer: PrinterServer,
    tmp_path: Path,
) -> Iterator[Worker]:
    environment = {
        "DJANGO_SETTINGS_MODULE": "example_project.settings",
        "DATABASE_URL": url_of(connection.settings_dict),
        "CELERY_BROKER_URL": broker,
        "GATEWAY_URL": f"http://127.0.0.1:{gateway.server_port}",
        "PRINTER_URL": f"http://127.0.0.1:{printer.server_port}",
        "IDEMPOTENCY_LEASE": "5",
        # A message that a killed child took with it is sent again this soon.
        "IDEMPOTENCY_REPUBLISH_AFTER": "5",
        "PAYMENTS_LONGEST_BACKOFF": "1",
    }
    worker = ProjectWorker("desk", tmp_path / "worker.log", environment=environment)
    yield worker
    worker.kill()


def are_registered(count: int) -> bool:
    return Registration.objects.count() >= count


def test_children_that_are_killed_cost_nobody_a_place_a_charge_or_a_badge(
    event: Event,
    worker: Worker,
    gateway: GatewayServer,
    printer: PrinterServer,
    example_settings: Settings,
) -> None:
    example_settings.LOGIN_URL = "login"
    desk = Desk(event)
    event.tickets.update(places=1000)
    upload = desk.sent(attendees(ROWS) + "no address,Ann,vip,1\na3@x.org,Ann again,vip,1\n")
    worker.start()
    killed: set[int] = set()
    for registered in (10, 60, 110):
        eventually(partial(are_registered, registered), f"{registered} rows are registered", within=60)
        # The last one may not be buried yet, nor the next one born.
        (child,) = eventually(lambda: {*worker.children()} - killed, "a child works")
        killed.add(child)
        os.kill(child, signal.SIGKILL)
        assert desk.sent(attendees(ROWS) + "no address,Ann,vip,1\na3@x.org,Ann again,vip,1\n") == upload
    done = Report("finished", ROWS + 2, ok=ROWS, fatal=1, manual_review=1, paid=ROWS, printed=ROWS)
    eventually(lambda: report_of(upload) == done, "all is done", within=60)

    assert sorted(charge["reference"] for charge in gateway.store.charges()) == sorted(
        f"acme/{name}" for name in Registration.objects.values_list("reference", flat=True)
    )
    for counted in (Charge, Badge, Registration):
        assert counted.objects.count() == ROWS
    assert len(set(printer.store.sheets())) == len(printer.store.sheets()) == ROWS
    eventually(lambda: Notification.objects.count() == 1, "the tenant is told once")
    assert Notification.objects.get().text == f"attendees.csv: {ROWS} of {ROWS + 2} rows are registered"
