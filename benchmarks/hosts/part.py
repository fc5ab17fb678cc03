"""The part that goes beyond one machine: ``python -m benchmarks hosts``."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.core.management import call_command
from django.db import connection

from benchmarks.figures.arithmetic import alternating
from benchmarks.figures.part import Report, machine_line
from benchmarks.hosts.connections import Connections
from benchmarks.hosts.cut import CHILDREN as HOLDING
from benchmarks.hosts.cut import OTHERS, Cut, Outcome, directory_for
from benchmarks.hosts.delay import tell
from benchmarks.hosts.fleet import HostFleet
from benchmarks.hosts.network import Host, hosts
from benchmarks.hosts.report import Distance, Results
from benchmarks.hosts.rounds import GUARDED, PLAIN, Track
from benchmarks.hosts.servers import FarServers
from benchmarks.hosts.times import set_visible
from benchmarks.machine.celery import app
from benchmarks.machine.machine import load, machine_now
from benchmarks.throughput.fleet import BrokenBenchmark
from example_project.demo.programs import Program, stop_all, wait_until
from example_project.servers import Servers

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTS, CHILDREN = 4, 2
#: Seconds in which idle workers are counted: a sweep and a look at everything fall into them.
RESTING = 10.0
#: Milliseconds of a round trip to the database and to the broker.
DISTANCES = ((0, 0), (1, 0), (5, 0), (20, 0), (5, 5), (20, 20))
#: Tasks of a round, of which each distance has two of guarded ones; of a round of one kind; of the cut.
USUAL, QUICK = (750, 334, 1_000), (60, 60, 100)


def run(options: argparse.Namespace, servers: Servers, logs: Path) -> Report:
    """Measure. Raises BrokenBenchmark where a round was not done exactly once."""
    if not isinstance(servers, FarServers) or servers.postgres is None:
        raise BrokenBenchmark("Hosts have servers of their own.")
    round_of, kind_of, load_of = QUICK if options.quick else USUAL
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:5.1f} s  {text}", flush=True)

    app.loader.import_default_modules()
    directory = directory_for(logs)
    call_command("migrate", verbosity=0, run_syncdb=True)
    results = Results(CHILDREN, HOSTS)
    machine = machine_now()
    with hosts(HOSTS) as there:
        _measure(results, servers, there, logs, (round_of, kind_of), say)
        results.outcome = _cut(results, servers, there, logs, directory, load_of, say)
    machine["load at the end"] = load()
    text = f"{results.text()}\n\n{machine_line(machine)}"
    return Report(text, results.as_json() | {"machine": machine}, results.broken)


def _measure(
    results: Results,
    servers: FarServers,
    there: Sequence[Host],
    logs: Path,
    sizes: tuple[int, int],
    say: Callable[[str], None],
) -> None:
    """Plain and guarded rounds at each distance, and one of each kind without delay."""
    environment = {**os.environ, **servers.delayed}
    with _delays(servers, there, logs) as sockets, _fleet(there, logs, servers.delayed) as fleet:
        say(f"starting {2 * len(there)} workers on {len(there)} hosts")
        for role in ("plain", "guarded"):
            fleet.start(role, {host.name: CHILDREN for host in there})
        fleet.wait_until_ready()
        if servers.postgres is None:
            raise BrokenBenchmark("The server is not ours.")
        track = Track(fleet, servers.postgres, there, sockets)
        say("warming up")
        track.move({"database": 0, "broker": 0}, environment)
        for role, tasks in (("plain", [PLAIN]), ("guarded", [*GUARDED.values()])):
            track.run(role, tasks, sizes[1])
        track.rest(RESTING)
        for label, task in {"plain": PLAIN, **GUARDED}.items():
            role = "plain" if label == "plain" else "guarded"
            results.kinds[label] = track.run(role, [task], sizes[1])
        for database, broker in DISTANCES:
            asked = {"database": float(database), "broker": float(broker)}
            distance = Distance(asked, track.move(asked, environment), {"plain": [], "guarded": []})
            results.distances.append(distance)
            say(f"round trips of {distance.name} ms: 4 x {sizes[0]} tasks")
            for order in alternating(["plain", "guarded"], 2):
                for role in order:
                    tasks = [PLAIN] if role == "plain" else [*GUARDED.values()]
                    distance.rounds[role].append(track.run(role, tasks, sizes[0]))


def _cut(
    results: Results,
    servers: FarServers,
    there: Sequence[Host],
    logs: Path,
    directory: Path,
    count: int,
    say: Callable[[str], None],
) -> Outcome:
    """Cut the first host off, without a process that would answer in the servers' place."""
    with ExitStack() as undo:
        fleet = undo.enter_context(_fleet(there, logs, {**servers.direct, **set_visible()}))
        say("starting a worker on each host for the cut")
        children = {host.name: OTHERS for host in there} | {there[0].name: HOLDING}
        fleet.start("guarded", children, run="-cut")
        fleet.wait_until_ready()
        others = {
            name: Program(name, ["django", *words], logs)
            for name, words in {"idem sweep": ["idem", "sweep"], "idem beat": ["idem", "beat"]}.items()
        }
        undo.callback(stop_all, [*others.values()])
        port = urlsplit(servers.database_url).port or 5432
        connections = Connections({**fleet.programs, **others}, port)
        connection.close()
        outcome = Cut(fleet, there, directory, connections).carry_out(count, say)
        results.connections = connections.most
        return outcome


@contextmanager
def _fleet(there: Sequence[Host], logs: Path, environment: dict[str, str]) -> Iterator[HostFleet]:
    fleet = HostFleet(there, logs, environment)
    try:
        yield fleet
    finally:
        fleet.stop()


@contextmanager
def _delays(servers: FarServers, there: Sequence[Host], logs: Path) -> Iterator[list[Path]]:
    """A process on each host that delays; where each is told how much."""
    sockets = [logs / f"{host.name}.sock" for host in there]
    programs = [
        Program(f"delay-{host.name}", host.words("benchmarks.hosts.delay", str(path), *servers.places), logs)
        for host, path in zip(there, sockets, strict=True)
    ]
    try:
        if not wait_until(lambda: all(map(_listens, sockets)), seconds=30):
            raise BrokenBenchmark("The processes that delay did not begin.")
        yield sockets
    finally:
        stop_all(programs)


def _listens(path: Path) -> bool:
    try:
        tell(path, {})
    except OSError:
        return False
    return True
