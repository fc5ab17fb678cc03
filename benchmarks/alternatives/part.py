"""The part that measures what a team would pick instead, on servers of its own."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from celery import Celery
from django.core.management import call_command
from django.db import connection, transaction

from benchmarks.alternatives.job import arguments
from benchmarks.alternatives.peers import INSTALLED, MISSING
from benchmarks.alternatives.runs import CELERY, by_celery, by_peer
from benchmarks.alternatives.sender import Arguments, Sender
from benchmarks.alternatives.senders import PLAIN, senders
from benchmarks.alternatives.taken import Taken, medians, taken
from benchmarks.figures.arithmetic import alternating
from benchmarks.figures.part import Report, machine_line
from benchmarks.figures.table import figure, render
from benchmarks.machine.celery import app as workers
from benchmarks.machine.machine import load, machine_now
from benchmarks.reserve.producers import make_app
from benchmarks.throughput.fleet import BrokenBenchmark, Fleet
from benchmarks.throughput.plain import write_row
from benchmarks.throughput.rounds import Track
from benchmarks.throughput.worker import GUARDED_KEPT, PLAIN_KEPT
from example_project.servers import Server, Servers

NOTES = """\
Medians of alternating rounds. Every job writes one row in a transaction. A ratio is throughput beside plain
Celery in the same column, and behind it the same by processor time, which other work on the machine disturbs
less: that of the sender, or of the worker with its children, and of the database's server, without the
broker's. "in a transaction" is a row and a job that go together: after the commit where the queue is not in
the database. Celery runs two jobs at a time in two children, django-tasks-db in two workers, Procrastinate in
one process; pgqueuer fetches ten at once, as it comes, and runs them in threads. Others refuse a job while
one with its lock waits, this package when its key is completed too.
"""

Works = dict[str, Callable[[], Taken]]


def run(options: argparse.Namespace, servers: Servers, logs: Path) -> Report:
    """Measure as much as the options say. Raises BrokenBenchmark on a server that is not ours."""
    if servers.postgres is None:
        raise BrokenBenchmark("alternatives fills its server: unset DATABASE_URL.")
    call_command("migrate", verbosity=0, run_syncdb=True)
    for line in MISSING:
        print(line, flush=True)
    jobs, bulk, rounds = (50, 500, 2) if options.quick else (300, 10_000, options.rounds or 5)
    peers = {peer.package: peer.module.sender() for peer in INSTALLED}
    sent = _sent(senders(make_app()) | peers, servers.postgres, jobs, bulk, rounds)
    found = sent | {"run": _run(peers, servers.postgres, logs, jobs, rounds)}
    machine = machine_now() | {"load at the end": load()}
    text = [*(_table(name, one) for name, one in found.items()), *MISSING]
    data = {name: {way: vars(each) for way, each in one.items()} for name, one in found.items()}
    return Report("\n\n".join([*text, NOTES.rstrip(), machine_line(machine)]), data | {"machine": machine})


def _sent(
    ways: dict[str, Sender], server: Server, jobs: int, bulk: int, rounds: int
) -> dict[str, dict[str, Taken]]:
    numbers = count(1, max(jobs, bulk))

    def each(send: Callable[[Arguments], object]) -> Callable[[], Taken]:
        def work() -> None:
            for number in range(first := next(numbers), first + jobs):
                send(arguments(number))

        return lambda: taken(work, jobs, server)

    def at_once(way: Sender) -> Callable[[], Taken]:
        def work() -> None:
            first = next(numbers)
            with transaction.atomic():
                way.many(arguments(number) for number in range(first, first + bulk))

        return lambda: taken(work, bulk, server)

    refusing = {name: way.refused for name, way in ways.items() if way.refused}
    return {
        "one by one": _rounds({name: each(way.one) for name, way in ways.items()}, rounds),
        "in a transaction": _rounds(
            {name: each(partial(_with_row, way)) for name, way in ways.items()}, rounds
        ),
        f"{bulk:,} at once": _rounds({name: at_once(way) for name, way in ways.items()}, rounds),
        "refused": _rounds({name: each(refuse) for name, refuse in refusing.items()}, rounds),
    }


def _with_row(way: Sender, job: Arguments) -> None:
    with transaction.atomic():
        write_row("business", job["number"])
        way.in_transaction(job)


def _run(peers: dict[str, Sender], server: Server, logs: Path, jobs: int, rounds: int) -> dict[str, Taken]:
    with connection.cursor() as cursor:  # they need not run what was only sent
        for peer in INSTALLED:
            cursor.execute(f"TRUNCATE {peer.table} CASCADE")
    with ExitStack() as undo:
        _take(workers)
        fleet = Fleet(logs, (PLAIN_KEPT, GUARDED_KEPT))
        undo.callback(fleet.stop)
        fleet.start()
        track = Track(fleet, server, jobs)
        works: Works = {name: partial(by_celery, track, name) for name in CELERY}
        for peer in INSTALLED:
            works[peer.package] = partial(by_peer, peer, peers[peer.package], server, logs, jobs)
        return _rounds(works, rounds)


def _take(app: Celery) -> None:
    """Send what follows by the app of the workers."""
    app.set_default()
    app.loader.import_default_modules()


def _rounds(works: Works, rounds: int) -> dict[str, Taken]:
    """The medians; a first round warms up and does not count."""
    found: dict[str, list[Taken]] = {name: [] for name in works}
    for number, order in enumerate(alternating(list(works), rounds + 1)):
        for name in order:
            one = works[name]()
            found[name] += [one] if number else []
    return {name: medians(each) for name, each in found.items()}


def _table(title: str, found: dict[str, Taken]) -> str:
    base = found.get(PLAIN)
    rows = []
    for name, one in found.items():
        ratios = [_ratio(base, one, of) for of in ("elapsed", "busy")]
        rows.append([name, figure(1 / one.elapsed), *ratios, figure(1e3 * one.busy, 2)])
    return render((title, "a second", "ratio", "by processor time", "its ms"), rows)


def _ratio(base: Taken | None, one: Taken, of: str) -> str:
    values: Any = (getattr(base, of, None), getattr(one, of))
    return figure(values[0] / values[1] if values[0] and values[1] else None, 2)
