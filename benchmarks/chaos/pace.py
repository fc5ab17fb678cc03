"""Keeps senders from running far ahead of the faults, so that a run of any size ends under faults."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from benchmarks.chaos.plan import Plan

#: By which part of all calls a sender may be ahead: more than what waits for leases to end.
AHEAD = 0.1
#: The variable that names the file which tells senders how far the faults are.
VARIABLE = "CHAOS_PACE"


@dataclass(frozen=True)
class Pace:
    """A file with the part of a plan's faults that have struck; servers may be away while it is read."""

    path: Path

    @classmethod
    def of_environment(cls) -> Pace:
        """The one that the environment names."""
        return cls(Path(os.environ[VARIABLE]))

    def struck(self, faults: int, plan: Plan) -> None:
        """Note that so many faults of the plan have struck. A reader sees the old text or the new one."""
        part = faults / len(plan.faults) if plan.faults else 1.0
        new = self.path.with_suffix(".new")
        new.write_text(f"{part}\n")
        new.replace(self.path)

    def allows(self, number: int, plan: Plan) -> bool:
        """Whether the call with this number may be sent."""
        return number <= (float(self.path.read_text()) + AHEAD) * len(plan.calls)
