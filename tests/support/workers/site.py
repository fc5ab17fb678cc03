"""Where tests and worker processes meet: a database, a broker, a journal, and the workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from celery.result import AsyncResult

from tests.sample.celery import app, gap
from tests.support.brokers.broker import Broker
from tests.support.ledger.rows import Rows
from tests.support.workers.journal import Journal
from tests.support.workers.processes import Worker

#: Seconds between two sweeps of a site's workers, and how many without a note of them are an outage.
SWEEP_SECONDS = 0.5
GAP = gap(SWEEP_SECONDS)


@dataclass
class Site:
    """The surroundings of a set of workers; workers of other sites neither see its rows nor its messages."""

    directory: Path
    database_url: str
    broker: Broker
    journal: Journal
    rows: Rows = field(default_factory=Rows)
    workers: list[Worker] = field(default_factory=list)

    def send(
        self, task: Any, *args: Any, options: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> AsyncResult[Any]:
        """Call a task on this site's broker; ``options`` are those of ``apply_async``."""
        return self._send(task, args, kwargs, options or {})

    def park(self, task: Any, *args: Any) -> bytes:
        """Make a call whose message nobody takes, and return the message."""
        self._send(task, args, {}, {"queue": self.broker.parked})
        return self.broker.take_parked()

    def _send(self, task: Any, args: Any, kwargs: Any, options: Mapping[str, Any]) -> AsyncResult[Any]:
        transport = {"global_keyprefix": self.broker.prefix}
        with app.connection_for_write(self.broker.url, transport_options=transport) as connection:
            result: AsyncResult[Any] = task.apply_async(args, kwargs, connection=connection, **options)
        return result

    def worker(self, name: str, *arguments: str, **environment: str) -> Worker:
        """Make a worker, not yet started; ``PROJ_...`` variables change its settings."""
        variables = {
            "DJANGO_SETTINGS_MODULE": "tests.sample.settings",
            "DATABASE_URL": self.database_url,
            "CELERY_BROKER_URL": self.broker.url,
            "PROJ_PREFIX": self.broker.prefix,
            "PROJ_DIRECTORY": str(self.directory),
            "PROJ_SWEEP_SECONDS": str(SWEEP_SECONDS),
            **environment,
        }
        log = self.directory / f"{name}-{len(self.workers)}.log"
        worker = Worker(name, log, *arguments, environment=variables)
        self.workers.append(worker)
        return worker

    @contextmanager
    def running(self, name: str, *arguments: str, **environment: str) -> Iterator[Worker]:
        """A started worker that is killed at the end."""
        worker = self.worker(name, *arguments, **environment)
        try:
            yield worker.start()
        finally:
            worker.kill()

    def pair(self, *arguments: str, **environment: str) -> Pair:
        """Two workers, not yet started."""
        return Pair(*(self.worker(name, *arguments, **environment) for name in ("first", "second")))

    def owner(self, entry: Mapping[str, Any]) -> Worker:
        """Find the worker whose child wrote a journal entry."""
        return next(
            worker for worker in self.workers if worker.is_alive and entry["pid"] in worker.children()
        )

    def settle(self) -> None:
        """Let running bodies end; where they do not, kill the workers. Then empty the queue."""
        self.journal.open_all()
        living = [worker for worker in self.workers if worker.is_alive]
        for worker in living:
            worker.resume()
        try:
            if living:
                self.broker.wait_until_empty(within=5)
        except AssertionError:
            for worker in living:
                worker.kill()
        self.broker.clear()

    def close(self) -> None:
        """Kill what still runs and let the connections go."""
        for worker in self.workers:
            worker.kill()
        self.broker.close()
        self.rows.close()
        app.close()


class Pair:
    """Two workers; a test may do anything to them, the next one finds two sound ones."""

    def __init__(self, *workers: Worker) -> None:
        self.workers = workers

    def ready(self) -> Pair:
        """Start those that are not running, and return when both are idle."""
        missing = [worker.launch() for worker in self.workers if not worker.is_alive]
        for worker in missing:
            worker.wait_until_ready()
        return self

    def other(self, worker: Worker) -> Worker:
        """The one that is not ``worker``."""
        return next(candidate for candidate in self.workers if candidate is not worker)

    def kill(self) -> None:
        """End both."""
        for worker in self.workers:
            worker.kill()
