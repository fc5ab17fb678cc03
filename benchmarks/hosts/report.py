"""The results of the hosts, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import mean, median
from typing import Any

from benchmarks.figures.table import figure, render
from benchmarks.hosts.cut import Outcome
from benchmarks.hosts.rounds import Measured
from benchmarks.hosts.taken import Taken
from benchmarks.hosts.times import LEASE, VISIBLE

#: What README promises of each kind of claim, in words.
PROMISES = {
    "leased, completed by return": f"lease + 20 = {LEASE + 20}",
    "leased, completed inside complete()": f"lease + 20 = {LEASE + 20}",
    "reserved, leased": f"lease + 20 = {LEASE + 20}",
    "atomic": f"when the broker delivers again ({VISIBLE})",
    "reserved, atomic": "30, its queue is empty",
}

NOTES = """\
Each host is a network namespace with {children} children; a process on it delays bytes to and from the
servers, for plain Celery as well. Rates are of the middle nine tenths of each round, medians of the rounds.
"ms" is processor time a task of workers and database. Delays are what was asked for, and in parentheses what
a host measured. Round trips are counted by the process that delays, those of idle workers taken off; what is
computed is their number times the measured delay: no child can be faster.
"""


@dataclass
class Distance:
    """The servers at so many milliseconds a round trip: asked for, measured, and the rounds by label."""

    asked: dict[str, float]
    measured: dict[str, float]
    rounds: dict[str, list[Measured]] = field(default_factory=dict)

    def rate(self, label: str) -> float:
        """Tasks a second of all hosts."""
        return median(each.rate for each in self.rounds[label])

    @property
    def name(self) -> str:
        """How far away both are."""
        return ", ".join(f"{name} {self.asked[name]:g} ({self.measured[name]:.1f})" for name in self.asked)


@dataclass
class Results:
    """Everything that was measured."""

    children: int
    hosts: int
    distances: list[Distance] = field(default_factory=list)
    kinds: dict[str, Measured] = field(default_factory=dict)
    connections: dict[str, int] = field(default_factory=dict)
    outcome: Outcome | None = None

    def text(self) -> str:
        """All tables."""
        parts = [
            (f"Tasks a second on {self.hosts} hosts", self._rates()),
            ("Round trips a task, without delay", self._trips()),
            ("What the distance of the database costs, ms of a child a task", self._costs()),
            ("Seconds from the cut until a call that the host held was claimed elsewhere", self._taken()),
            ("Connections to the database, the most that were seen", self._connections()),
        ]
        tables = [f"{title}\n\n{table}" for title, table in parts]
        return "\n\n".join([*tables, NOTES.format(children=self.children).rstrip()])

    def _rates(self) -> str:
        rows = []
        for distance in self.distances:
            plain = distance.rate("plain")
            for label, rounds in distance.rounds.items():
                by_host = [rate for each in rounds for rate in each.rates]
                rate = distance.rate(label)
                beside = figure(rate / plain, 2) if label != "plain" else ""
                one = f"{min(by_host):.0f} to {max(by_host):.0f}"
                cpu = median(each.cpu for each in rounds)
                rows.append([distance.name, label, figure(rate), one, beside, figure(cpu, 2)])
        headers = ("round trip, ms", "tasks", "in all", "a host", "of plain", "ms")
        return render(headers, rows, texts=(0, 1))

    def _trips(self) -> str:
        rows = [
            [label, figure(one.trips["database"], 1), figure(one.trips["broker"], 1), figure(one.rate)]
            for label, one in self.kinds.items()
        ]
        return render(("tasks", "to the database", "to the broker", "tasks/s"), rows)

    def _costs(self) -> str:
        rows = []
        for distance in self.distances:
            if distance.asked["broker"]:
                continue
            for label in distance.rounds:
                least = self._trips_of(label) * distance.measured["database"]
                rows.append(
                    [distance.name, label, figure(self._child_ms(distance, label), 1), figure(least, 1)]
                )
        return render(("round trip, ms", "tasks", "measured", "computed, at least"), rows, texts=(0, 1))

    def _trips_of(self, label: str) -> float:
        names = ["plain"] if label == "plain" else [name for name in self.kinds if name != "plain"]
        return mean(self.kinds[name].trips["database"] for name in names)

    def _child_ms(self, distance: Distance, label: str) -> float:
        return 1000 * self.hosts * self.children / distance.rate(label)

    def _taken(self) -> str:
        if self.outcome is None:
            return "not tried"
        rows = [
            [each.kind, str(each.held), _from_to(each), PROMISES[each.kind], ", ".join(each.ends)]
            for each in self.outcome.taken
        ]
        headers = ("calls", "held", "seconds", "promised", "their bodies, once the host was back")
        verdict = self.outcome.verdict
        where = "on the host that was cut off" if self.outcome.led else "elsewhere"
        return (
            f"{render(headers, rows, texts=(0, 2, 3, 4))}\n\nThe host was away for"
            f" {self.outcome.cut_seconds:.0f} s; the sweeper led {where}. Of {self.outcome.calls} calls"
            f" {len(verdict.lost)} are lost, {len(verdict.doubled)} doubled, {len(verdict.odd)} odd, by"
            f" a count of their effects. {self.outcome.again} without reserve were sent again by their"
            " caller, as the ledger did not know them."
        )

    def _connections(self) -> str:
        return render(("process", "connections"), [[name, str(n)] for name, n in self.connections.items()])

    @property
    def broken(self) -> tuple[str, ...]:
        """What must not be."""
        if self.outcome is None:
            return ()
        return (*self.outcome.verdict.problems, *_all(each.broken for each in self.outcome.taken))

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        outcome = self.outcome
        return {
            "distances": [
                {
                    "asked": each.asked,
                    "measured": each.measured,
                    "rates": {label: [one.rate for one in rounds] for label, rounds in each.rounds.items()},
                    "ms": {label: [one.cpu for one in rounds] for label, rounds in each.rounds.items()},
                }
                for each in self.distances
            ],
            "round trips": {label: one.trips for label, one in self.kinds.items()},
            "connections": self.connections,
            "claimed elsewhere": {each.kind: each.seconds for each in outcome.taken} if outcome else {},
        }


def _all(texts: Any) -> Sequence[str]:
    return [text for each in texts for text in each]


def _from_to(taken: Taken) -> str:
    seconds = taken.seconds
    found = f"{seconds[0]:.1f} to {seconds[-1]:.1f}" if seconds else ""
    return ", ".join(filter(None, [found, f"{len(taken.unclaimed)} not" if taken.unclaimed else ""]))
