"""Everything that a run has found: as tables, and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any

from benchmarks.crash_table.claims import Delays
from benchmarks.crash_table.outcome import Outcome
from benchmarks.figures.table import figure, render

OUTCOMES = ("experiment", "subject", "done?", "starts", "ends", "s to end", "remark")
DELAYS = ("from a kill to the next start", "subject", "N", "median s", "max s", "min s")


@dataclass
class Results:
    """The outcomes in the order of the experiments, and how soon work goes on after a kill."""

    machine: dict[str, Any]
    outcomes: list[Outcome] = field(default_factory=list)
    delays: list[Delays] = field(default_factory=list)

    def tables(self) -> str:
        """All tables, for people."""
        rows = [
            row
            for _, outcomes in groupby(self.outcomes, attrgetter("experiment"))
            for row in _rows(list(outcomes))
        ]
        parts = [render(OUTCOMES, rows, texts=(0, 1, 2, 6))]
        if self.delays:
            delays = sorted(self.delays, key=attrgetter("strike"))
            parts.append(render(DELAYS, [_delay_row(one) for one in delays], texts=(0, 1)))
        return "\n\n".join(parts)

    def as_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        return asdict(self)

    def broken_promises(self) -> list[str]:
        """Where this package lost work or did it twice."""
        return [
            f"{one.subject}, {one.experiment}: {one.ends} ends of {one.pieces} pieces; {one.remark}"
            for one in self.outcomes
            if one.ours and not one.is_sound
        ]


def _rows(outcomes: list[Outcome]) -> list[list[str]]:
    return [
        [
            one.experiment if number == 0 else "",
            one.subject,
            "yes" if one.completed else "NO",
            str(one.starts),
            str(one.ends),
            f"not in {one.waited:.0f}" if one.seconds is None else figure(one.seconds, 1),
            one.remark,
        ]
        for number, one in enumerate(outcomes)
    ]


def _delay_row(delays: Delays) -> list[str]:
    seconds = delays.seconds
    figures = [delays.median, max(seconds), min(seconds)]
    return [delays.strike, delays.subject, str(len(seconds)), *(figure(value, 2) for value in figures)]
