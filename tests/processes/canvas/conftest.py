"""One worker with each result backend, which runs all canvases at once."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest

from tests.processes.canvas import tasks
from tests.processes.canvas.forms import ERRORS, FORMS, Form, make
from tests.support.brokers.broker import Broker
from tests.support.ledger.databases import empty_database
from tests.support.ledger.rows import Rows
from tests.support.waiting import eventually
from tests.support.workers.journal import Journal
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site
from tests.support.workers.sites import site

__all__ = ["site"]

BACKENDS = {"redis": "", "database": "django_idempotent_tasks.results:DatabaseBackend"}
#: Seconds for all of them together.
LONG = 60.0


@dataclass
class Arena:
    """A site whose worker has a result backend, and the canvases that it was given."""

    site: Site
    forms: dict[tuple[str, str], Form] = field(default_factory=dict)

    def send_all(self) -> None:
        """Send each canvas in each mode, and before it what its parts are twins of."""
        for mode in tasks.MODES:
            for number, name in enumerate((*FORMS, *ERRORS)):
                form = make(mode, name, f"{mode}{number}")
                self.forms[mode, name] = form
                for each in (*form.before, form.canvas):
                    self.site.send(tasks.start, each)

    def has_ended(self, form: Form) -> bool:
        """Whether its end, or its error, was told."""
        return any(self.site.journal.read(event, form.key) for event in ("collected", "heard"))

    def wait(self) -> None:
        """Wait until all have ended and nothing is left to do; who hangs fails in its own test."""
        try:
            eventually(
                lambda: all(map(self.has_ended, self.forms.values())), "the ends", within=LONG, every=0.2
            )
            self.site.broker.wait_until_empty(within=LONG)
        except AssertionError as error:
            print(error)


@pytest.fixture(scope="package")
def _arenas(site: Site) -> Iterator[dict[str, Arena]]:
    with ExitStack() as stack:
        arenas = {name: Arena(stack.enter_context(place_of(site, name))) for name in BACKENDS}
        for name, arena in arenas.items():
            stack.enter_context(running(arena.site, name))
            arena.send_all()
        for arena in arenas.values():
            arena.wait()
        yield arenas


@pytest.fixture(scope="package", params=BACKENDS)
def arena(_arenas: dict[str, Arena], request: pytest.FixtureRequest) -> Arena:
    """The canvases, ended."""
    return _arenas[str(request.param)]


def running(place: Site, backend: str, **environment: str) -> AbstractContextManager[Worker]:
    """A worker of canvases."""
    options = ("--concurrency", "4", "--include", "tests.processes.canvas.tasks")
    return place.running(backend, *options, **_environment(backend), **environment)


@contextmanager
def place_of(site: Site, name: str) -> Iterator[Site]:
    """A database, a queue and a journal of its own."""
    directory = site.directory / name
    directory.mkdir()
    broker = Broker(site.broker.url, prefix=f"{site.broker.prefix}canvas-{name}:")
    with empty_database(f"canvas_{name}") as url:
        place = Site(directory, url, broker, Journal(directory), Rows(f"canvas_{name}"))
        yield place
        place.close()


def _environment(name: str) -> dict[str, str]:
    settings = json.dumps({"REPUBLISH_AFTER": 5})
    backend = BACKENDS[name] or os.environ["CELERY_BROKER_URL"]
    return {"PROJ_RESULT_BACKEND": backend, "PROJ_IDEMPOTENT_TASKS": settings}
