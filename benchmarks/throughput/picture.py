"""The ratios to the plain task as a picture for the documentation."""

from __future__ import annotations

from benchmarks.figures.plot import Bar, draw
from benchmarks.throughput.report import Results
from benchmarks.throughput.variants import VARIANTS

BASE = "plain"


def picture(results: Results) -> str:
    """A bar for each variant that is compared with the plain task."""
    bars = []
    for variant in VARIANTS:
        for against in variant.against:
            if against.base == BASE:
                ratio = results.compared(variant.label, BASE)
                values = (ratio.of_medians, ratio.lowest, ratio.highest)
                bars.append(Bar(variant.title, *values, goal=against.goal))
    machine = results.machine
    words = [f"{name} {machine[name]}" for name in ("python", "postgresql", "celery", "django", "cores")]
    notes = ["Ratio of medians; line: from the worst to the best round; mark: goal.", ", ".join(words)]
    return draw("Tasks a second beside plain Celery with kept connections", notes, bars)
