"""The results: as tables beside the goals, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from benchmarks.figures import goals
from benchmarks.figures.arithmetic import Comparison, compare, doubt, known_median, spread
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
    "parent ms",
    "children ms",
    "server ms",
    "beside",
    "ratio",
    "from-to",
    "by ms",
    "±",
    "goal",
    "verdict",
)
OWN_COLUMNS = 7
#: A ratio by processor time is settled when its doubt is below this.
SETTLED = 0.05
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

    def by_processor(self, label: str, base: str) -> list[float]:
        """The ratios, round by round, that a machine without idle time would show; none where unknown."""
        pairs = zip(self.rounds[label], self.rounds[base], strict=True)
        return [other.cpu / own.cpu for own, other in pairs if own.cpu and other.cpu]

    def unsettled(self) -> dict[str, float]:
        """The ratios with a goal of which the rounds do not tell enough yet, with their doubt."""
        found = {
            f"{variant.label}/{against.base}": doubt(ratios)
            for variant in VARIANTS
            for against in variant.against
            if against.goal is not None and self.has(variant.label, against.base)
            if (ratios := self.by_processor(variant.label, against.base))
        }
        return {name: value for name, value in found.items() if value >= SETTLED}

    def has(self, *labels: str) -> bool:
        """Whether all of these were measured."""
        return all(self.rounds.get(label) for label in labels)

    def tables(self) -> str:
        """All tables, for people."""
        parts = [
            ("Tasks a second, two children", _throughput(self)),
            ("Memory of a worker, MB", _memory(self)),
        ]
        if self.handlers:
            parts += [
                ("One call in its process, without a queue", handler_table(self.handlers, self.counts)),
                ("Computing a call's identity, once, where it is sent", _identity(self)),
            ]
        return "\n\n".join(f"{title}\n\n{table}" for title, table in parts)

    def as_json(self) -> dict[str, Any]:
        """Everything, for programs; the ratios as well."""
        ratios = {
            f"{variant.label}/{against.base}": asdict(self.compared(variant.label, against.base))
            for variant in VARIANTS
            for against in variant.against
            if self.has(variant.label, against.base)
        }
        return {**asdict(self), "ratios": ratios}


def _throughput(results: Results) -> str:
    rows = []
    for variant in VARIANTS:
        if not results.has(variant.label):
            continue
        shown = [against for against in variant.against if results.has(against.base)]
        for number, against in enumerate(shown or [None]):
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
        figure(known_median(one.parent_cpu for one in rounds), 2),
        figure(known_median(one.pool_cpu for one in rounds), 2),
        figure(known_median(one.server_cpu for one in rounds), 2),
    ]


def _compared_cells(results: Results, variant: Variant, against: Against | None) -> list[str]:
    if against is None:
        return [""] * (len(THROUGHPUT) - OWN_COLUMNS)
    ratio = results.compared(variant.label, against.base)
    used = results.by_processor(variant.label, against.base)
    return [
        against.base,
        figure(ratio.of_medians, 2),
        f"{ratio.lowest:.2f}-{ratio.highest:.2f}",
        figure(known_median(used), 2),
        f"{doubt(used):.0%}" if used else "",
        goal(against.goal, ">="),
        goals.at_least(known_median(used) or ratio.of_medians, against.goal),
    ]


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
