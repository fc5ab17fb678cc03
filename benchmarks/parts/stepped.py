"""What a step costs: a task that writes some rows, each in a step, beside one that writes them without."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import Any

from benchmarks.figures.arithmetic import alternating
from benchmarks.handler.counts import counted, start_counting
from benchmarks.handler.handler import WARM_UP, Bench, Handler
from benchmarks.machine.celery import app
from benchmarks.throughput.guarded import STEPS
from example_project.servers import Server

WITHOUT = Handler("parts", "rows, each in a transaction", "benchmarks.throughput.guarded.parts")
WITH = Handler("steps", "rows, each in a step", "benchmarks.throughput.guarded.steps")


def stepped(server: Server | None, calls: int) -> dict[str, Any]:
    """Microseconds of a step, and the statements and commits that the server has counted for one.

    Restarts a server of our own.
    """
    app.loader.import_default_modules()
    bench = Bench()
    by_label = {each.label: each for each in (WITHOUT, WITH)}
    taken: dict[str, list[int]] = {label: [] for label in by_label}
    for order in alternating(list(by_label), WARM_UP + calls):
        for label in order:
            taken[label].append(bench.call(by_label[label]))
    plain, steps = (median(times[WARM_UP:]) / 1e3 / STEPS for times in taken.values())
    can_count = start_counting(server)
    counts = [counted(partial(bench.call, each), can_count=can_count) for each in (WITHOUT, WITH)]
    statements, commits, wal = ((more - less) / STEPS for less, more in zip(*counts, strict=True))
    return {
        "a step": {
            "us": round(steps),
            "us without": round(plain),
            "statements more": round(statements, 1) if can_count else None,
            "commits more": round(commits, 1),
            "WAL bytes more": round(wal),
        }
    }
