"""Rounds of throughput: all hosts work off one queue, at one distance from the servers."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from django.db import connection

from benchmarks.hosts.delay import tell
from benchmarks.hosts.fleet import HostFleet
from benchmarks.hosts.network import Host
from benchmarks.machine.celery import app
from benchmarks.machine.cpu import server_seconds
from benchmarks.models import Work
from benchmarks.throughput.fleet import BrokenBenchmark
from benchmarks.throughput.rounds import NOTE
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from example_project.demo.programs import wait_until
from example_project.servers.process import Server

PLAIN = "benchmarks.throughput.plain.write"
#: Guarded tasks by what they are called in the report; the message is the same in all.
GUARDED = {
    "atomic": "benchmarks.throughput.guarded.atomic",
    "complete": "benchmarks.throughput.guarded.completes",
    "return": "benchmarks.throughput.guarded.returns",
}
#: Seconds without a single row after which a round is given up.
STALLED = 60.0
#: The middle of a round: without its beginning, before all hosts consume, and its tail.
MIDDLE = """
SELECT extract(epoch FROM percentile_disc(0.95) WITHIN GROUP (ORDER BY at)
                        - percentile_disc(0.05) WITHIN GROUP (ORDER BY at)) / 0.9
  FROM benchmarks_work WHERE batch = %s
"""


@dataclass(frozen=True)
class Measured:
    """Of one round: seconds for all, tasks of each host, processor ms and round trips a task."""

    count: int
    seconds: float
    by_host: dict[str, int]
    cpu: float
    trips: dict[str, float]

    @property
    def rate(self) -> float:
        """Tasks a second."""
        return self.count / self.seconds

    @property
    def rates(self) -> list[float]:
        """Tasks a second of each host."""
        return [count / self.seconds for count in self.by_host.values()]


class Track:
    """Where rounds are run; ``sockets`` are those of the hosts' delaying processes."""

    def __init__(
        self, fleet: HostFleet, server: Server, hosts: Sequence[Host], sockets: Sequence[Path]
    ) -> None:
        self._fleet = fleet
        self._server = server
        self._host = hosts[0]
        self._sockets = sockets
        self._number = 0
        #: Round trips a second of workers that have nothing to do.
        self._idle = {"database": 0.0, "broker": 0.0}

    def move(self, delays: Mapping[str, float], environment: Mapping[str, str]) -> dict[str, float]:
        """Put the servers at so many milliseconds a round trip; what a host measures of it."""
        for path in self._sockets:
            tell(path, {name: each / 2000 for name, each in delays.items()})
        command = [sys.executable, "-m", *self._host.words("benchmarks.hosts.probe")]
        said = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
        if said.returncode:
            raise BrokenBenchmark(f"the servers cannot be reached from a host:\n{said.stderr}")
        return {str(name): float(value) for name, value in json.loads(said.stdout).items()}

    def rest(self, seconds: float) -> None:
        """Count for so long what workers ask the servers that have nothing to do."""
        before, began = self._trips(), time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - began
        self._idle = {name: (after - before[name]) / passed for name, after in self._trips().items()}

    def run(self, role: str, tasks: Sequence[str], count: int) -> Measured:
        """Let all hosts work off ``count`` calls, of these tasks in turn.

        Raises BrokenBenchmark where a call is not done exactly once.
        """
        self._number += 1
        batch = f"hosts/{self._number:03d}"
        queue, names = f"benchmarks.{batch}", self._fleet.names(role)
        self._fill(batch, queue, tasks, count)
        begun, cpu, trips, at = self._fleet.begun(role), self._cpu(role), self._trips(), time.monotonic()
        self._fleet.tell("add_consumer", queue, names)
        self._wait(batch, count)
        passed = time.monotonic() - at
        used, trips_after = self._cpu(role) - cpu, self._trips()
        by_host = {name: after - begun[name] for name, after in self._fleet.begun(role).items()}
        self._fleet.tell("cancel_consumer", queue, names)
        self._verify(batch, count, by_host, guarded=role == "guarded")
        taken = {
            name: (trips_after[name] - trips[name] - self._idle[name] * passed) / count
            for name in trips_after
        }
        return Measured(count, self._seconds(batch), by_host, 1000 * used / count, taken)

    def _fill(self, batch: str, queue: str, tasks: Sequence[str], count: int) -> None:
        with app.producer_pool.acquire(block=True) as producer:
            for number in range(count):
                task = app.tasks[tasks[number % len(tasks)]]
                arguments = {"batch": batch, "number": number, "note": NOTE}
                task.apply_async(kwargs=arguments, queue=queue, producer=producer)

    def _wait(self, batch: str, count: int) -> None:
        rows, last, before = Work.objects.filter(batch=batch), time.monotonic(), 0
        while (now := rows.count()) < count:
            if now != before:
                last, before = time.monotonic(), now
            if time.monotonic() - last > STALLED:
                raise BrokenBenchmark(f"{batch}: {count - now} of {count} tasks are not run")
            time.sleep(0.1)

    def _verify(self, batch: str, count: int, by_host: Mapping[str, int], *, guarded: bool) -> None:
        rows = Work.objects.filter(batch=batch)
        found = (rows.count(), rows.values("number").distinct().count(), sum(by_host.values()))
        if found != (count, count, count):
            raise BrokenBenchmark(f"{batch}: rows, different rows, bodies are {found} instead of {count}")
        keys = IdempotencyKey.objects.filter(key_text__contains=batch, state=State.SUCCEEDED, attempts=1)
        if guarded and not wait_until(lambda: keys.count() == count, seconds=20):
            raise BrokenBenchmark(f"{batch}: {keys.count()} of {count} keys are completed in one attempt")

    def _seconds(self, batch: str) -> float:
        with connection.cursor() as cursor:
            cursor.execute(MIDDLE, [batch])
            return float(cursor.fetchone()[0])

    def _cpu(self, role: str) -> float:
        return self._fleet.seconds(role) + (server_seconds(self._server.pid) or 0.0)

    def _trips(self) -> dict[str, int]:
        found = [tell(path, {}) for path in self._sockets]
        return {name: sum(each[name] for each in found) for name in found[0]}
