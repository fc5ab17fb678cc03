"""One run of everything, on servers and workers of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from django.core.management import call_command
from django.db import connection

from benchmarks.figures.arithmetic import alternating
from benchmarks.handler.counts import count_handlers
from benchmarks.handler.handler import Bench
from benchmarks.handler.identity import identity_costs
from benchmarks.machine.celery import app
from benchmarks.machine.machine import load, machine_now
from benchmarks.machine.memory import WorkerMemory, worker_memory
from benchmarks.models import Work
from benchmarks.throughput.fleet import BrokenBenchmark, Fleet
from benchmarks.throughput.report import Results
from benchmarks.throughput.rounds import Track
from benchmarks.throughput.variants import ABSENT, BY_LABEL, SEEDS
from benchmarks.throughput.worker import GUARDED_KEPT, PLAIN_KEPT, Role
from django_idempotent_tasks.models import IdempotencyKey
from example_project.servers import Server, Servers

#: One checkpoint at the beginning, and none while something is measured: after each, the first
#: change of a page writes the whole page.
QUIET = ("ALTER SYSTEM SET checkpoint_timeout = '1h'", "ALTER SYSTEM SET max_wal_size = '8GB'")

MOST_ROUNDS = 60
#: A round of each of these workers before anything is measured.
WARMED = frozenset(
    {
        "set-nx",
        "stock",
        "atomic-stock",
        "complete-stock",
        "complete-fast",
        "atomic-before",
        "complete-before",
    }
)


@dataclass(frozen=True)
class Effort:
    """How much is measured: tasks a round, the fewest rounds a variant, calls of each handler.

    Rounds go on until the ratios are settled, unless ``exactly`` so many are wanted. After ``seconds`` no
    further round is begun. ``labels`` are the variants; ``in_process``: whether handlers are called as well.
    """

    tasks: int
    rounds: int
    calls: int
    seconds: float
    labels: Sequence[str]
    exactly: bool = False
    in_process: bool = True


class Session:
    """Measures one thing after the other and says so."""

    def __init__(self, servers: Servers, logs: Path, effort: Effort) -> None:
        self._servers = servers
        self._effort = effort
        roles = {BY_LABEL[label].role for label in (*effort.labels, *SEEDS)}
        self._fleet = Fleet(logs, roles | {PLAIN_KEPT})
        self._roles = len(roles | {PLAIN_KEPT})
        self._track = Track(self._fleet, servers.postgres, effort.tasks)
        self._began = time.monotonic()

    def run(self) -> Results:
        """Measure everything. Raises BrokenBenchmark when something was not done exactly once."""
        self._prepare()
        results = Results(machine_now())
        for package in ABSENT:
            self._say(f"{package} is not installed and is left out")
        with ExitStack() as undo:
            self._say(f"starting {self._roles} workers")
            undo.callback(self._fleet.stop)
            self._fleet.start()
            self._warm_up(results)
            self._measure(results)
            complaints = self._fleet.complaints()
            if complaints:
                raise BrokenBenchmark("\n".join(["the workers complained:", *complaints]))
        if self._effort.in_process:
            self._in_process(results)
        results.machine["load at the end"] = load()
        return results

    def _prepare(self) -> None:
        app.loader.import_default_modules()
        call_command("migrate", verbosity=0, run_syncdb=True)
        if Work.objects.exists() or IdempotencyKey.objects.exists():
            raise BrokenBenchmark("The database is in use. Unset DATABASE_URL, or name an empty database.")
        if self._own_server is not None:
            with connection.cursor() as cursor:
                for statement in (*QUIET, "SELECT pg_reload_conf()", "CHECKPOINT"):
                    cursor.execute(statement)

    def _warm_up(self, results: Results) -> None:
        """Each worker runs a round of each mode; memory is read when as many tasks were run."""
        self._say("warming up")
        for label in SEEDS:
            self._track.run(BY_LABEL["plain"], f"warm/plain/{label}")
            self._track.run(BY_LABEL[label], BY_LABEL[label].seed)
            results.memory[f"plain/{label}"] = self._memory(PLAIN_KEPT)
            results.memory[f"guarded/{label}"] = self._memory(GUARDED_KEPT)
        for label in WARMED.intersection(self._effort.labels):
            self._track.run(BY_LABEL[label], f"warm/{label}")

    def _memory(self, role: Role) -> WorkerMemory | None:
        return worker_memory(*self._fleet.processes(role))

    def _measure(self, results: Results) -> None:
        results.rounds = {label: [] for label in self._effort.labels}
        for number, order in enumerate(alternating(self._effort.labels, MOST_ROUNDS)):
            if enough := self._enough(number, results):
                self._say(enough)
                break
            self._say(f"round {number + 1}: {len(order)} x {self._effort.tasks} tasks")
            for label in order:
                measured = self._track.run(BY_LABEL[label], f"{number}/{label}")
                results.rounds[label].append(measured)

    def _enough(self, rounds: int, results: Results) -> str:
        """Why no further round is begun; empty where one is."""
        if rounds and self._seconds > self._effort.seconds:
            return "no time for another round"
        if rounds < self._effort.rounds:
            return ""
        if self._effort.exactly:
            return "as many rounds as were asked for"
        return "" if results.unsettled() else "the ratios are settled"

    def _in_process(self, results: Results) -> None:
        """What needs no workers; they have ended, so that nobody else is at the server."""
        self._say(f"calling each task {self._effort.calls} times in this process")
        bench = Bench()
        results.stored_message = bench.stored_message()
        results.handlers = bench.timed(self._effort.calls)
        self._say("counting statements and commits")
        results.counts = count_handlers(bench, self._own_server)
        self._say("computing identities")
        results.identity = identity_costs()

    @property
    def _own_server(self) -> Server | None:
        return self._servers.postgres

    def _say(self, text: str) -> None:
        print(f"{self._seconds:5.1f} s  {text}", flush=True)

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._began
