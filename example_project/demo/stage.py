"""Sets the stage: environment, tables, tenants, an admin, and the processes of the project."""

from __future__ import annotations

import os
import secrets
import socket
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from example_project.servers.process import free_port

from .programs import ROOT, Program, stop_all, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

TENANTS = {
    "acme": "Acme Tools",
    "blumen": "Blumen Berlin",
    "cafe-luna": "Café Luna",
    "delta": "Delta Bikes",
    "engel": "Engel Books",
}
START_SECONDS = 30.0

#: Children of each worker.
CHILDREN = 2

#: What the workers import besides the project.
FAULT = ("--include", "example_project.demo.faulty_client")

#: Seconds between two runs of each periodic job.
PERIOD = 3

#: Short times, so that a run of a minute shows what takes minutes in production.
QUICK = {
    "IDEMPOTENCY_LEASE": "5",
    "IDEMPOTENCY_REPUBLISH_AFTER": "10",
    "PAYMENTS_LONGEST_BACKOFF": "2",
    "CELERY_VISIBILITY_TIMEOUT": "10",
    "CELERY_RESTORE_INTERVAL": "1",
    "CELERY_RESTORE_THROTTLE": "1",
    "PERIODIC_SECONDS": str(PERIOD),
}


class StageError(RuntimeError):
    """A part of the demonstration did not start. The message says which."""


def set_environment(servers: Mapping[str, str], gateway_port: int, printer_port: int) -> None:
    """Set what the project's settings read, for this process and all that it starts."""
    os.environ.update(servers)
    os.environ.update(QUICK)
    os.environ["DJANGO_SETTINGS_MODULE"] = "example_project.settings"
    os.environ["GATEWAY_URL"] = f"http://127.0.0.1:{gateway_port}"
    os.environ["PRINTER_URL"] = f"http://127.0.0.1:{printer_port}"
    os.environ["SECRET_KEY"] = secrets.token_urlsafe(50)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])


def prepare_database() -> dict[str, str]:
    """Create the tables and the tenants, and return the tenants' secrets. Refuses a database in use."""
    from django.core.management import call_command  # noqa: PLC0415  (only when the settings are complete)

    from django_idempotent_tasks.models import IdempotencyKey  # noqa: PLC0415
    from example_project.payments.models import Tenant  # noqa: PLC0415

    call_command("migrate", verbosity=0)
    if IdempotencyKey.objects.exists() or Tenant.objects.exists():
        raise StageError("The database is in use. Unset DATABASE_URL, or name an empty database.")
    tenants = [Tenant(slug=slug, name=name) for slug, name in TENANTS.items()]
    Tenant.objects.bulk_create(tenants)
    return {tenant.slug: tenant.secret for tenant in tenants}


def create_admin() -> str:
    """Create the login ``admin`` with a random password, and return the password."""
    from django.contrib.auth import get_user_model  # noqa: PLC0415

    password = secrets.token_urlsafe(12)
    get_user_model()._default_manager.create_superuser("admin", "", password)
    return password


@dataclass
class Stage:
    """The processes of the project. ``stop()`` ends them all."""

    home: Path
    gateway_port: int = field(default_factory=free_port)
    printer_port: int = field(default_factory=free_port)
    web_port: int = field(default_factory=free_port)
    workers: list[Program] = field(default_factory=list)
    beats: list[Program] = field(default_factory=list)
    started: list[Program] = field(default_factory=list)
    _gateway: Program | None = None

    @property
    def gateway_address(self) -> str:
        """Host and port of the gateway."""
        return f"127.0.0.1:{self.gateway_port}"

    @property
    def printer_address(self) -> str:
        """Host and port of the printer."""
        return f"127.0.0.1:{self.printer_port}"

    @property
    def web_address(self) -> str:
        """Host and port of the web server."""
        return f"127.0.0.1:{self.web_port}"

    def start(self) -> None:
        """Start gateway, printer, web server and two workers, and return when all of them answer."""
        self._gateway = self._start_gateway("--unavailable", "0.03")
        store = str(self.home / "printer.sqlite3")
        self._start(
            "printer", ["example_project.printer", "--port", str(self.printer_port), "--store", store]
        )
        self._start("web", ["example_project.web", "--port", str(self.web_port)])
        self.workers += [self.start_worker(), self.start_worker()]
        ports = {"gateway": self.gateway_port, "printer": self.printer_port, "web": self.web_port}
        for program, port in ports.items():
            _expect(program, partial(_listens, port))
        for worker in self.workers:
            _expect(worker.name, partial(_is_ready, worker))

    def kill_gateway(self) -> str:
        """SIGKILL the gateway: nobody can pay until it is started again."""
        if self._gateway is not None:
            self._gateway.kill()
            self.started.remove(self._gateway)
            self._gateway = None
        return "killed the gateway"

    def start_quick_gateway(self) -> str:
        """Start it again with what it knew, and answers within milliseconds: no wait for anybody's bank."""
        self.kill_gateway()
        self._gateway = self._start_gateway("--latency", "0", "0.004", "--unavailable", "0.005")
        _expect("gateway", partial(_listens, self.gateway_port))
        return "started the gateway again"

    def _start_gateway(self, *options: str) -> Program:
        store = str(self.home / "gateway.sqlite3")
        words = ["example_project.gateway", "--port", str(self.gateway_port), "--store", store]
        return self._start("gateway", [*words, *options])

    @contextmanager
    def web_without_broker(self) -> Iterator[str]:
        """A second web server, which cannot reach the broker and does itself what it accepts; its address."""
        port = free_port()
        alone = {"CELERY_BROKER_URL": "redis://127.0.0.1:9/0", "SYNC_FALLBACK": "1"}
        program = self._start("web-alone", ["example_project.web", "--port", str(port)], alone)
        _expect("web-alone", partial(_listens, port))
        try:
            yield f"127.0.0.1:{port}"
        finally:
            stop_all([program])

    def start_worker(self) -> Program:
        """Start one more worker with two children; it is not ready yet."""
        name = f"worker{sum(program.name.startswith('worker') for program in self.started) + 1}"
        quiet = ["--without-mingle", "--without-gossip", "--loglevel", "INFO"]
        return self._start(
            name,
            [
                "celery",
                "-A",
                "example_project",
                "worker",
                "-c",
                str(CHILDREN),
                "-n",
                f"{name}@demo",
                *FAULT,
                *quiet,
            ],
        )

    def start_beats(self) -> None:
        """Start two more beats, of which one leads; they are not ready yet."""
        first = len(self.beats) + 1
        names = [f"beat{number}" for number in (first, first + 1)]
        self.beats += [self._start(name, ["django", "idem", "beat"]) for name in names]

    def alive(self) -> list[Program]:
        """Return the workers that run with all their children."""
        return [worker for worker in self.workers if worker.running and len(worker.children()) == CHILDREN]

    def stop(self) -> None:
        """End every process that was started."""
        stop_all(self.started)

    def _start(
        self, name: str, arguments: list[str], environment: Mapping[str, str] = MappingProxyType({})
    ) -> Program:
        program = Program(name, arguments, self.home, environment)
        self.started.append(program)
        return program


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _is_ready(worker: Program) -> bool:
    return b" ready." in worker.log.read_bytes()


def _expect(what: str, condition: Callable[[], bool]) -> None:
    if not wait_until(condition, seconds=START_SECONDS):
        message = f"{what} did not start"
        raise StageError(message)
