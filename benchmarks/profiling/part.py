"""The part that shows where the time goes: calls in this process, without a queue and without workers."""

from __future__ import annotations

import argparse
import cProfile
import pstats
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter_ns, thread_time_ns
from typing import Any

from django.core.management import call_command

import django_idempotent_tasks
from benchmarks.figures.part import Report, machine_line
from benchmarks.figures.table import figure, render
from benchmarks.handler.handler import HANDLERS, IN_A_ROW, Bench, Handler
from benchmarks.machine.celery import app
from benchmarks.machine.machine import load, machine_now
from benchmarks.profiling.metrics import metrics_table
from benchmarks.profiling.steps import CELERY, LABELS, timing, waits_for_the_server
from benchmarks.profiling.stopwatch import Stopwatch
from example_project.servers import Servers

SHOWN = (
    "plain",
    "atomic",
    "atomic-result",
    "complete",
    "return",
    "dup-atomic",
    "dup-leased",
    "again-atomic",
    "again-leased",
)
#: These are taken apart by function as well.
TAKEN_APART = ("atomic", "complete")
FUNCTIONS = 14
#: On a busy machine the second tells more about Python; the server's part is in the first alone.
CLOCKS = {"by the clock": perf_counter_ns, "of this process's processor time": thread_time_ns}
WARM_UP = 7

NOTES = """\
Medians of each step in microseconds, without the steps inside it; the timers themselves cost a few.
"statement" is Django's cursor, the driver and the server; the identity travels in the message's header.
By function: cProfile, which makes Python about twice as slow as it is; use it for the order.
"""

#: For each call, what its steps took in nanoseconds.
Calls = list[dict[str, int]]


def run(options: argparse.Namespace, _servers: Servers, _logs: Path) -> Report:
    """Call every task some hundred times, the kinds in turn."""
    call_command("migrate", verbosity=0, run_syncdb=True)
    app.loader.import_default_modules()
    calls = 50 if options.quick else options.tasks or 500
    shown = [handler for handler in HANDLERS if handler.label in SHOWN]
    machine = machine_now()
    taken = {title: _timed(shown, calls, clock) for title, clock in CLOCKS.items()}
    functions = {label: _by_function(label, calls) for label in TAKEN_APART}
    metrics, added = metrics_table(4 * calls)
    machine["load at the end"] = load()
    parts = [
        *(f"One call, step by step, us {title}\n\n{_table(shown, one)}" for title, one in taken.items()),
        *(
            f"{label}: the package's own functions, us a call\n\n{_functions_table(rows)}"
            for label, rows in functions.items()
        ),
        *filter(None, [metrics]),
        NOTES.rstrip(),
        machine_line(machine),
    ]
    steps = {title: {label: _medians(each) for label, each in one.items()} for title, one in taken.items()}
    return Report(
        "\n\n".join(parts), {"steps": steps, "functions": functions, "metrics": added, "machine": machine}
    )


def _timed(shown: list[Handler], calls: int, clock: Callable[[], int]) -> dict[str, Calls]:
    stopwatch = Stopwatch(clock)
    taken: dict[str, Calls] = defaultdict(list)
    with timing(stopwatch, [app.tasks[name] for name in {handler.task for handler in shown}]):
        bench = Bench(around=lambda tracer: stopwatch.timed(tracer, CELERY))
        for number in range(WARM_UP + calls // IN_A_ROW):
            for handler in shown if number % 2 else reversed(shown):
                bench.lead_in(handler)
                for _ in range(IN_A_ROW):
                    stopwatch.take()
                    bench.call(handler)
                    taken[handler.label].append(dict(stopwatch.take()))
    return {label: each[WARM_UP * IN_A_ROW :] for label, each in taken.items()}


def _medians(calls: Calls) -> dict[str, float]:
    """The median of each step, of the parts that Python and the server have, and of the whole."""
    steps = {label: [call.get(label, 0) for call in calls] for label in LABELS}
    server = [sum(ns for label, ns in call.items() if waits_for_the_server(label)) for call in calls]
    whole = [sum(call.values()) for call in calls]
    steps |= {"Python": [all_ - waited for all_, waited in zip(whole, server, strict=True)]}
    steps |= {"statements and commits": server, "all": whole}
    return {label: median(values) / 1000 for label, values in steps.items()}


def _table(shown: list[Handler], taken: dict[str, Calls]) -> str:
    medians = [_medians(taken[handler.label]) for handler in shown]
    rows = [[label, *(figure(one[label]) if one[label] else "" for one in medians)] for label in medians[0]]
    return render(("step", *(handler.label for handler in shown)), rows)


def _by_function(label: str, calls: int) -> list[tuple[str, float, float]]:
    """The functions of the package: calls a task, and microseconds of their own."""
    handler = next(handler for handler in HANDLERS if handler.label == label)
    Bench().call(handler)
    profile = cProfile.Profile()
    bench = Bench(around=lambda tracer: partial(profile.runcall, tracer))
    profile.clear()
    for _ in range(calls):
        bench.call(handler)
    home = str(Path(django_idempotent_tasks.__file__).parent)
    stats: Any = pstats.Stats(profile)
    found = [
        (f"{Path(file).name}:{line} {name}", entry[1] / calls, entry[2] / calls * 1e6)
        for (file, line, name), entry in stats.stats.items()
        if file.startswith(home)
    ]
    everything = ("all of them", sum(row[1] for row in found), sum(row[2] for row in found))
    return [everything, *sorted(found, key=lambda row: -row[2])[:FUNCTIONS]]


def _functions_table(rows: list[tuple[str, float, float]]) -> str:
    cells = [(name, figure(count, 1), figure(microseconds, 1)) for name, count, microseconds in rows]
    return render(("function", "calls", "us"), cells)
