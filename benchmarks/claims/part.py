"""The part that measures claims at few keys and at many, on a server of its own."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.claims.tables import FEW, MANY, Filled, execute, fill, make_databases, write_images
from benchmarks.claims.work import KINDS, Work, store_of
from benchmarks.claims.written import Written, count, written
from benchmarks.figures.arithmetic import Comparison, alternating, compare
from benchmarks.figures.goals import MANY_KEYS, at_most
from benchmarks.figures.part import Report, machine_line
from benchmarks.figures.table import figure, goal, render
from benchmarks.machine.machine import load, machine_now
from benchmarks.throughput.fleet import BrokenBenchmark
from example_project.servers import Servers

ROWS_FEW, ROWS_MANY, ROWS_QUICK = 10_000, 10_000_000, 100_000
WARM_UP = 50
#: How it is timed, with the values of synchronous_commit and full_page_writes.
WAYS = {
    "commits wait for the disk": ("on", "on"),
    "commits do not wait": ("off", "on"),
    "commits do not wait, no whole pages": ("off", "off"),
}

NOTES = """\
A claim and its completion through the store, in this process, on one connection; medians of a round, and the
ratio of the rounds' medians. Where commits do not wait, the disk does not hide what the number of keys costs.
No checkpoint comes while something is timed: at many keys nearly every claim is the first since the last one
to touch its pages and writes them whole, which is the worst case; without whole pages is the best one.
WAL is read at the insert position: "pages apart" is without whole pages, "after a checkpoint" with them.
Commits are of transactions that changed something. Indexes were built after the fill, so they are as dense as
they can be, and the few keys have about doubled by the end. shared_buffers is the default, 128 MB.
"""


@dataclass(frozen=True)
class Timed:
    """Microseconds by round, at few keys and at many."""

    few: list[float]
    many: list[float]

    @property
    def compared(self) -> Comparison:
        """Many beside few."""
        return compare(self.many, self.few)


def run(options: argparse.Namespace, servers: Servers, _logs: Path) -> Report:
    """Fill, time, and count. Raises BrokenBenchmark on a server that is not ours."""
    if servers.postgres is None:
        raise BrokenBenchmark("claims changes the server's settings and fills it: unset DATABASE_URL.")
    machine = machine_now()
    rows = options.keys or (ROWS_QUICK if options.quick else ROWS_MANY)
    tasks, rounds = (60, 3) if options.quick else (options.tasks or 150, options.rounds or 11)
    make_databases()
    filled = {alias: _fill(alias, number) for alias, number in ((FEW, ROWS_FEW), (MANY, rows))}
    timed = {way: _time(way, filled, tasks, rounds) for way in WAYS}
    images = {alias: written(alias, filled[alias].rows, images=True) for alias in filled}
    apart = {alias: written(alias, filled[alias].rows, images=False) for alias in filled}
    counts = count(servers.postgres, ROWS_FEW)
    machine["load at the end"] = load()
    text = "\n\n".join(
        [
            "\n".join(one.text for one in filled.values()),
            *(f"{way}\n\n{_table(one)}" for way, one in timed.items()),
            _written_table(filled, apart, images, counts),
            NOTES.rstrip(),
            machine_line(machine),
        ]
    )
    data: dict[str, Any] = {
        "filled": {alias: asdict(one) for alias, one in filled.items()},
        "timed": {way: {kind: asdict(each) for kind, each in one.items()} for way, one in timed.items()},
        "wal": {"images apart": apart, "after a checkpoint": images},
        "counts": counts,
    }
    return Report(text, data | {"machine": machine})


def _fill(alias: str, rows: int) -> Filled:
    print(f"filling {rows:,} keys", flush=True)
    filled = fill(alias, rows)
    print(filled.text, flush=True)
    return filled


def _time(way: str, filled: dict[str, Filled], tasks: int, rounds: int) -> dict[str, Timed]:
    print(f"timing, {way}", flush=True)
    found = {kind: Timed([], []) for kind in KINDS}
    commits, images = WAYS[way]
    write_images(images)
    for alias in filled:
        execute(alias, f"SET synchronous_commit = {commits}")
    for number, order in enumerate(alternating(list(filled), rounds + 1)):
        for kind, work in KINDS.items():
            for alias in order:
                taken = _round(alias, work, filled[alias].rows, tasks if number else WARM_UP)
                if number:
                    (found[kind].few if alias == FEW else found[kind].many).append(taken)
    return found


def _round(alias: str, work: Work, rows: int, tasks: int) -> float:
    store, taken = store_of(alias), []
    for _ in range(tasks):
        began = time.perf_counter()
        work(store, rows)
        taken.append(time.perf_counter() - began)
    return 1e6 * median(taken)


def _table(timed: dict[str, Timed]) -> str:
    rows = []
    for kind, one in timed.items():
        ratio = one.compared
        rows.append(
            [
                kind,
                figure(median(one.few)),
                figure(median(one.many)),
                figure(ratio.of_medians, 2),
                f"{ratio.lowest:.2f}-{ratio.highest:.2f}",
                goal(MANY_KEYS, "<="),
                at_most(ratio.of_medians, MANY_KEYS),
            ]
        )
    headers = ("claim and completion", "us, few keys", "us, many", "ratio", "from-to", "goal", "verdict")
    return render(headers, rows, texts=(0, 6))


def _written_table(
    filled: dict[str, Filled],
    apart: dict[str, Written],
    images: dict[str, Written],
    counts: dict[str, tuple[float | None, float]],
) -> str:
    headers = (
        "a task's",
        "statements",
        "commits",
        "WAL B, pages apart, few keys",
        "many",
        "after a checkpoint, few",
        "many",
    )
    rows = []
    for kind in KINDS:
        statements, commits = counts[kind]
        wal = [figure(side[alias][kind]) for side in (apart, images) for alias in filled]
        rows.append([kind, figure(statements, 1), figure(commits, 1), *wal])
    return render(headers, rows)
