"""What one call costs in its process, beside a plain one and beside the goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.figures import goals
from benchmarks.figures.table import figure, goal, render
from benchmarks.handler.counts import Counts
from benchmarks.handler.handler import HANDLERS, PLAIN, Handler

HEADERS = (
    "call",
    "us",
    "x plain",
    "x its fresh run",
    "goal",
    "verdict",
    "statements",
    "commits",
    "goal for them",
    "verdict",
    "WAL B",
)
TEXTS = (0, 5, 9)


def handler_table(taken: Mapping[str, Sequence[int]], counted: Mapping[str, Counts]) -> str:
    """The table, of the nanoseconds of all calls and the server's counts, by label."""
    medians = {label: median(times) / 1000 for label, times in taken.items()}
    rows = [
        [
            handler.title,
            figure(medians[handler.label]),
            figure(medians[handler.label] / medians[PLAIN.label], 2),
            *_beside_fresh(handler, medians),
            *_count_cells(handler, counted),
        ]
        for handler in HANDLERS
    ]
    return render(HEADERS, rows, texts=TEXTS)


def _beside_fresh(handler: Handler, medians: Mapping[str, float]) -> Sequence[str]:
    if not handler.fresh:
        return "", "", ""
    ratio = medians[handler.label] / medians[handler.fresh]
    return figure(ratio, 2), goal(goals.DUPLICATE, "<="), goals.at_most(ratio, goals.DUPLICATE)


def _count_cells(handler: Handler, counted: Mapping[str, Counts]) -> Sequence[str]:
    own, plain = counted[handler.label], counted[PLAIN.label]
    aim = goals.COUNTS.get(handler.label)
    verdict = "" if aim is None else aim.verdict((own.statements, own.commits), _pair(plain))
    return (
        figure(own.statements, 1),
        figure(own.commits, 1),
        str(aim or ""),
        verdict,
        figure(own.wal),
    )


def _pair(counts: Counts) -> tuple[float | None, float]:
    return counts.statements, counts.commits
