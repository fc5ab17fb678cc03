"""The part that measures reservations and pruning, in this process: no worker runs."""

from __future__ import annotations

import argparse
import time
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from django.core.management import call_command

from benchmarks.figures.arithmetic import alternating, compare
from benchmarks.figures.part import Report, machine_line
from benchmarks.machine.machine import machine_now
from benchmarks.reserve.arrival import arrival
from benchmarks.reserve.many import many
from benchmarks.reserve.producers import PLAIN, make_app, producers
from benchmarks.reserve.pruned import pruned
from benchmarks.reserve.steps import steps_of, tables
from example_project.servers import Servers

NOTES = """\
Ratios are throughput beside "{plain}" in the same rounds: of the medians, then the extremes of the rounds.
Without a transaction a reservation costs a commit of its own, which takes about as long as a publish.
"""


def run(options: argparse.Namespace, servers: Servers, _logs: Path) -> Report:
    """Measure as much as the options say."""
    call_command("migrate", verbosity=0, run_syncdb=True)
    tasks, rounds = (50, 3) if options.quick else (options.tasks or 300, options.rounds or 7)
    app = make_app()
    sends = producers(app)
    seconds = _time(sends, tasks, rounds)
    data: dict[str, Any] = {
        "microseconds": {name: [1e6 * each for each in values] for name, values in seconds.items()},
        "steps": steps_of(sends, tasks),
        "arrival": arrival(app, servers.broker_url, 50 if options.quick else 500),
        "many": many(app, 200 if options.quick else 2_000, rounds),
        "prune": pruned(5_000 if options.quick else 100_000),
    }
    machine = machine_now()
    notes = NOTES.format(plain=PLAIN)
    text = "\n".join(
        [
            _table(seconds),
            notes,
            tables(data["steps"]),
            "",
            _lines("arrival", data),
            _lines("many", data),
            _lines("prune", data),
        ]
    )
    return Report(f"{text}\n\n{machine_line(machine)}", data | {"machine": machine})


def _time(sends: dict[str, Any], tasks: int, rounds: int) -> dict[str, list[float]]:
    """Seconds for one sending, a value for each round."""
    numbers = count(1)
    found: dict[str, list[float]] = {name: [] for name in sends}
    for send in sends.values():
        for _ in range(20):
            send(next(numbers))
    for order in alternating(list(sends), rounds):
        for name in order:
            began = time.perf_counter()
            for _ in range(tasks):
                sends[name](next(numbers))
            found[name].append((time.perf_counter() - began) / tasks)
    return found


def _table(seconds: dict[str, list[float]]) -> str:
    lines = [f"{'sending':42} {'us':>7} {'ratio':>6}  {'lowest':>6} {'highest':>7}"]
    for name, values in seconds.items():
        beside = compare(seconds[PLAIN], values)
        lines.append(
            f"{name:42} {1e6 * median(values):7.0f} {beside.of_medians:6.2f}"
            f"  {beside.lowest:6.2f} {beside.highest:7.2f}"
        )
    return "\n".join(lines)


def _lines(part: str, data: dict[str, Any]) -> str:
    return f"{part}: " + ", ".join(f"{name} {value}" for name, value in data[part].items())
