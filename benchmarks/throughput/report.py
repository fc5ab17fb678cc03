"""The results: as tables beside the goals, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from benchmarks.figures import goals
from benchmarks.figures.arithmetic import Comparison, compare, known_median, spread
from benchmarks.figures.table import figure, goal, render
from benchmarks.handler.counts import Counts
from benchmarks.handler.identity import SIZES
from benchmarks.handler.table import handler_table
from benchmarks.machine.memory import Memory, WorkerMemory
from benchmarks.throughput.rounds import Measured
from benchmarks.throughput.variants import VARIANTS, Against, Variant

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
    "verdict",
)
OWN_COLUMNS = 6
TEXTS = (0, len(THROUGHPUT) - 1)


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
            ("One call in its process, without a queue", handler_table(self.handlers, self.counts)),
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
    return render(THROUGHPUT, rows, texts=TEXTS)


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
        goals.at_least(ratio.of_medians, against.goal),
    ]


def _by_processor(results: Results, label: str, base: str) -> float | None:
    """The ratio that a machine without idle time would show: the base's processor time over the variant's."""
    own, other = (known_median(one.cpu for one in results.rounds[name]) for name in (label, base))
    return None if own is None or other is None else other / own


def _memory(results: Results) -> str:
    headers = ("process", "plain RSS", "PSS", "guarded RSS", "PSS", "more RSS", "PSS", "goal", "verdict")
    rows: list[Sequence[str]] = []
    for label, after in (("complete", "after leased tasks"), ("atomic", "and atomic ones")):
        plain, guarded = results.memory[f"plain/{label}"], results.memory[f"guarded/{label}"]
        if plain is None or guarded is None:
            return "not told by this system"
        rows.append(_memory_row(f"parent, {after}", plain.parent, guarded.parent))
        rows.append(_memory_row(f"child, {after}", plain.child, guarded.child))
    return render(headers, rows, texts=(0, 8))


def _memory_row(name: str, plain: Memory, guarded: Memory) -> Sequence[str]:
    more = guarded.rss - plain.rss
    values = [plain.rss, plain.pss, guarded.rss, guarded.pss, more, guarded.pss - plain.pss]
    verdict = goals.at_most(more, goals.MEMORY_MB)
    return [name, *(figure(value, 1) for value in values), goal(goals.MEMORY_MB, "<=", 0), verdict]


def _identity(results: Results) -> str:
    rows = []
    for size in SIZES:
        characters, microseconds = results.identity[size.label]
        cells = [size.label, figure(characters), figure(microseconds, 1), goal(size.goal, "<=", 0)]
        rows.append([*cells, goals.at_most(microseconds, size.goal)])
    return render(("arguments", "characters", "us", "goal", "verdict"), rows, texts=(0, 4))
