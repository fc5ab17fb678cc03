"""The second act: a file sent twice, its rows under kills and an outage, then the verdict on each."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.core.management import call_command

from django_idempotent_tasks.models import IdempotencyKey
from example_project.payments.models import Tenant
from example_project.registrations.models import Event, Registration, Ticket, Upload
from example_project.registrations.report import batch_of, report_of
from example_project.registrations.tasks import print_badge, register

from ..chaos import Chaos
from ..judging.observe import Observer, ask
from ..programs import wait_until
from .bank import Bank
from .evidence import Evidence
from .organiser import Organiser
from .passing import Played, pass_judgement
from .sheet import STANDARD, TEAM, TICKETS, make_sheet

if TYPE_CHECKING:
    from collections.abc import Callable

    from example_project.servers import Servers

    from ..judging.report import Report
    from ..stage import Stage

#: Far above what it takes, since the machine may be busy with other work.
QUIET_SECONDS = 180.0
#: Seconds between two words about how far an upload is.
TOLD = 5.0
#: How long nobody can pay, in seconds.
OUTAGE = 3.0
#: Seconds between two kills.
PACE = 1.0
#: Rows of the file that is sent while the broker is out.
ALONE = 20


@dataclass(frozen=True)
class Rows:
    """The size of a run: a multiple of 100."""

    rows: int = 2000
    seed: int = 0


def play(stage: Stage, servers: Servers, size: Rows, report: Report) -> bool:
    """Run and print, and return whether the promise was kept."""
    rng = random.Random(size.seed)
    tenant, password = Tenant.objects.get(slug="acme"), f"{rng.getrandbits(64):x}"
    event, sheet = _event(tenant, password), make_sheet(size.rows, rng)
    observer = Observer(servers.broker_url, stage.gateway_address)
    prey = IdempotencyKey.objects.filter(task__in=[register.name, print_badge.name])
    chaos = Chaos(stage, prey.all, "registering or printing", rng, crashes=1)
    bank = Bank(
        stage.web_address,
        (tenant.slug, tenant.secret),
        lambda: list(ask(stage.gateway_address, "/charges")["charges"]),
        next(price for code, price, *_ in TICKETS if code == TEAM),
        rng,
    )
    stage.start_quick_gateway()
    bank.start()
    try:
        report.step(f"sending {sheet.rows} rows, the same file twice at once")
        uploads = _send_twice(stage, event, password, sheet.body)
        evidence = Evidence(stage, uploads[0])
        _strike(stage, chaos, evidence.upload, report)
        evidence.note_failures()
        _redrive(observer, evidence.upload, report)
        alone = _send_without_broker(stage, event, password, report)
        quiet = _wait_until(partial(_is_finished, evidence.upload), evidence.upload, report)
        bank.finish()
        reconciled = _reconcile(report)
        report.step("waiting until every key is final and the broker is empty")
        quiet = wait_until(observer.quiet, seconds=QUIET_SECONDS, every=0.25) and quiet
        played = Played(stage, sheet, evidence, chaos, bank, uploads, reconciled, alone)
        return pass_judgement(played, report, quiet=quiet)
    finally:
        bank.finish()
        observer.close()


def _event(tenant: Tenant, password: str) -> Event:
    organiser = get_user_model()._default_manager.create_user("organiser", password=password)
    event = Event.objects.create(tenant=tenant, title="The conference")
    event.organisers.add(organiser)
    for code, price, places, by_debit in TICKETS:
        Ticket.objects.create(event=event, code=code, price=price, places=places, by_debit=by_debit)
    return event


def _send_twice(stage: Stage, event: Event, password: str, body: bytes) -> list[Upload]:
    """Send one file in two requests that begin in the same instant."""
    organisers = [Organiser(stage.web_address, "organiser", password) for _ in range(2)]
    together = threading.Barrier(len(organisers))

    def send(organiser: Organiser) -> str:
        together.wait()
        return organiser.send(event.pk, "attendees.csv", body)

    with ThreadPoolExecutor(len(organisers)) as pool:
        numbers = list(pool.map(send, organisers))
    return [Upload.objects.get(pk=number) for number in numbers]


def _strike(stage: Stage, chaos: Chaos, upload: Upload, report: Report) -> None:
    """Kill a child each second, early a worker and half way the gateway, until all rows have an end."""
    events: list[tuple[float, Callable[[], str]]] = [
        (1 / 20, chaos.kill_worker),
        (1 / 2, partial(_outage, stage)),
    ]
    deadline = time.monotonic() + QUIET_SECONDS
    while not _is_settled(upload) and time.monotonic() < deadline:
        began = time.monotonic()
        if events and _registered(upload) >= events[0][0] * upload.rows and (done := events[0][1]()):
            events.pop(0)
        else:
            done = chaos.kill_child()
        report.step(done or "nothing to interrupt")
        time.sleep(max(0.0, PACE - (time.monotonic() - began)))
    _wait_until(partial(_is_settled, upload), upload, report)  # a slow machine lags behind the kills


def _wait_until(holds: Callable[[], bool], upload: Upload, report: Report) -> bool:
    """Wait for this, say now and then how far the upload is, and return whether it came to hold."""
    deadline = time.monotonic() + QUIET_SECONDS
    while not (held := wait_until(holds, seconds=TOLD, every=0.25)) and time.monotonic() < deadline:
        report.step(f"{_registered(upload)} of {upload.rows} rows are registered")
    return held


def _outage(stage: Stage) -> str:
    stage.kill_gateway()
    time.sleep(OUTAGE)
    stage.start_quick_gateway()
    return f"killed the gateway, and started it again after {OUTAGE:.0f} s"


def _registered(upload: Upload) -> int:
    return Registration.objects.filter(upload=upload, accepted_at__isnull=False).count()


def _is_settled(upload: Upload) -> bool:
    """Whether every chunk has ended or waits for a person."""
    upload.refresh_from_db()
    batch = batch_of(upload)
    return batch is not None and batch.sealed and not batch.chunks["open"]


def _redrive(observer: Observer, upload: Upload, report: Report) -> None:
    """A person tries again what the bank of some did not answer, once it is up."""
    found, batch = report_of(upload), batch_of(upload)
    counts = f"{found.fatal} fatal, {found.manual_review} in review, {found.retryable} retryable"
    report.step(f"{found.ok} rows are registered; {counts}")
    observer.end_outage()
    if batch is not None:
        batch.redrive(by="organiser", reason="the bank is up again")
    report.step("redrove those whose bank was down")


def _is_finished(upload: Upload) -> bool:
    return report_of(upload).state == "finished"


def _reconcile(report: Report) -> str:
    """Ask for the payments whose webhooks were never sent."""
    printed = StringIO()
    call_command("reconcile_registrations", "--minutes", "0", "--yes", stdout=printed)
    said = printed.getvalue().strip()
    report.step(said)
    return said


def _send_without_broker(stage: Stage, event: Event, password: str, report: Report) -> int:
    """Send a small file to a web server whose broker is out; how many rows are done in its answer."""
    rows = "".join(f"alone{n}@example.org,Alone {n},{STANDARD},1\n" for n in range(ALONE))
    with stage.web_without_broker() as address:
        organiser = Organiser(address, "organiser", password)
        number = organiser.send(event.pk, "alone.csv", f"email,name,ticket,quantity\n{rows}".encode())
    done = report_of(Upload.objects.get(pk=number)).printed
    report.step(f"a web server without a broker has done {done} of {ALONE} rows in its answer")
    return done
