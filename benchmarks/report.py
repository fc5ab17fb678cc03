"""The results: as tables beside the goals, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from benchmarks.counts import Counts
from benchmarks.figures import Comparison, compare, known_median, spread
from benchmarks.handler import DUPLICATE, GUARDED, HANDLERS, PLAIN
from benchmarks.identity import SIZES
from benchmarks.memory import Memory, WorkerMemory
from benchmarks.rounds import Measured
from benchmarks.table import figure, goal, render
from benchmarks.variants import VARIANTS, Against, Variant

THROUGHPUT = (
    "variant",
    "tasks/s",
    "spread",
    "WAL B",
    "worker ms",
    "server ms",
    "beside",
    "ratio",
    "by round",
    "from-to",
    "by ms",
    "goal",
)
OWN_COLUMNS = 6

MEMORY_GOAL_MB = 5.0
DUPLICATE_GOAL = 0.5

#: What a call may cost over a plain one, as (statements, commits); a duplicate: in all.
COUNT_GOALS = {
    "complete": "+2, +1",
    "return": "+2, +2",
    "result": "+2, +2",
    "duplicate": "3, 1",
    "duplicate-redelivered": "2, 1",
}


@dataclass
class Results:
    """Everything that was measured, as far as it was."""

    machine: dict[str, Any]
    stored_message: int = 0
    rounds: dict[str, list[Measured]] = field(default_factory=dict)
    handlers: dict[str, list[int]] = field(default_factory=dict)
    counts: dict[str, Counts] = field(default_factory=dict)
    memory: dict[str, WorkerMemory | None] = field(default_factory=dict)
    identity: dict[str, tuple[int, float]] = field(default_factory=dict)

    def rates(self, label: str) -> list[float]:
        """A variant's tasks a second, round by round."""
        return [measured.rate for measured in self.rounds[label]]

    def compared(self, label: str, base: str) -> Comparison:
        """A variant beside another."""
        return compare(self.rates(label), self.rates(base))

    def tables(self) -> str:
        """All tables, for people."""
        parts = [
            ("Tasks a second, two children", _throughput(self)),
            ("One call in its process, without a queue", _handlers(self)),
            ("Memory of a worker, MB", _memory(self)),
            ("Computing a call's identity, once, where it is sent", _identity(self)),
        ]
        return "\n\n".join(f"{title}\n\n{table}" for title, table in parts)

    def as_json(self) -> dict[str, Any]:
        """Everything, for programs; the ratios as well."""
        ratios = {
            f"{variant.label}/{against.base}": asdict(self.compared(variant.label, against.base))
            for variant in VARIANTS
            for against in variant.against
        }
        return {**asdict(self), "ratios": ratios}


def _throughput(results: Results) -> str:
    rows = []
    for variant in VARIANTS:
        for number, against in enumerate(variant.against or [None]):
            own = _own_cells(results, variant) if number == 0 else [""] * OWN_COLUMNS
            rows.append([*own, *_compared_cells(results, variant, against)])
    return render(THROUGHPUT, rows)


def _own_cells(results: Results, variant: Variant) -> list[str]:
    rates, rounds = results.rates(variant.label), results.rounds[variant.label]
    return [
        variant.title,
        figure(median(rates)),
        f"±{spread(rates):.0%}",
        figure(median(one.wal for one in rounds)),
        figure(known_median(one.worker_cpu for one in rounds), 2),
        figure(known_median(one.server_cpu for one in rounds), 2),
    ]


def _compared_cells(results: Results, variant: Variant, against: Against | None) -> list[str]:
    if against is None:
        return [""] * (len(THROUGHPUT) - OWN_COLUMNS)
    ratio = results.compared(variant.label, against.base)
    return [
        against.base,
        figure(ratio.of_medians, 2),
        figure(ratio.of_rounds, 2),
        f"{ratio.lowest:.2f}-{ratio.highest:.2f}",
        figure(_by_processor(results, variant.label, against.base), 2),
        goal(against.goal, ">="),
    ]


def _by_processor(results: Results, label: str, base: str) -> float | None:
    """The ratio that a machine without idle time would show: the base's processor time over the variant's."""
    own, other = (known_median(one.cpu for one in results.rounds[name]) for name in (label, base))
    return None if own is None or other is None else other / own


def _handlers(results: Results) -> str:
    headers = (
        "call",
        "us",
        "x plain",
        "x guarded",
        "goal",
        "statements",
        "commits",
        "goal for them",
        "WAL B",
    )
    medians = {label: median(times) / 1000 for label, times in results.handlers.items()}
    rows = []
    for handler in HANDLERS:
        own, counts = medians[handler.label], results.counts[handler.label]
        aim = DUPLICATE_GOAL if handler is DUPLICATE else None
        rows.append(
            [
                handler.title,
                figure(own),
                figure(own / medians[PLAIN.label], 2),
                figure(own / medians[GUARDED.label], 2),
                goal(aim, "<="),
                figure(counts.statements, 1),
                figure(counts.commits, 1),
                COUNT_GOALS.get(handler.label, ""),
                figure(counts.wal),
            ]
        )
    return render(headers, rows)


def _memory(results: Results) -> str:
    headers = ("process", "plain RSS", "PSS", "guarded RSS", "PSS", "more RSS", "PSS", "goal")
    plain, guarded = results.memory["plain"], results.memory["guarded"]
    if plain is None or guarded is None:
        return "not told by this system"
    rows = [
        _memory_row("parent", plain.parent, guarded.parent),
        _memory_row("child", plain.child, guarded.child),
    ]
    return render(headers, rows)


def _memory_row(name: str, plain: Memory, guarded: Memory) -> Sequence[str]:
    values = [
        plain.rss,
        plain.pss,
        guarded.rss,
        guarded.pss,
        guarded.rss - plain.rss,
        guarded.pss - plain.pss,
    ]
    return [name, *(figure(value, 1) for value in values), goal(MEMORY_GOAL_MB, "<=", 0)]


def _identity(results: Results) -> str:
    rows = []
    for size in SIZES:
        characters, microseconds = results.identity[size.label]
        rows.append([size.label, figure(characters), figure(microseconds, 1), goal(size.goal, "<=", 0)])
    return render(("arguments", "characters", "us", "goal"), rows)
