"""One call under an experiment, and the verdict on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.crash_table.calls import describe, is_over
from benchmarks.crash_table.deeds import Deed
from benchmarks.crash_table.guards import Variant
from benchmarks.crash_table.outcome import Outcome
from benchmarks.crash_table.stage import SETTLE_SECONDS, Stage

#: How long a lost call's successor may take, in seconds: a lost one is sent once more.
AGAIN_SECONDS = 9.0


@dataclass
class Trial:
    """A call that was sent; ``struck`` is the moment from which its end is timed."""

    stage: Stage
    experiment: str
    variant: Variant
    arguments: tuple[str, str, float]
    call: Any
    struck: float = 0.0

    @classmethod
    def begin(cls, stage: Stage, experiment: str, variant: Variant, deed: Deed, seconds: float) -> Trial:
        """Send a call with a new key."""
        arguments = (stage.new_key(experiment.split(maxsplit=1)[0]), deed.value, seconds)
        return cls(stage, experiment, variant, arguments, stage.send(variant, *arguments))

    @property
    def key(self) -> str:
        """The key of the call."""
        return self.arguments[0]

    def send_again(self) -> Any:
        """The same submission once more."""
        return self.stage.send(self.variant, *self.arguments)

    def strike_after(self, seconds: float) -> int:
        """Let the first run come so far; the process that it runs in."""
        first = self.stage.started(self.key)
        self.stage.watch.till(first.at + seconds)
        return first.pid

    def judge(self, *, seconds: float, remark: str = "") -> Outcome:
        """Wait so long for the end, and describe what became of the call; a lost one is sent again."""
        end = self.stage.seen("end", self.key, seconds=seconds)
        self.stage.watch.until(lambda: is_over(self.call), seconds=SETTLE_SECONDS if end else 0)
        self.stage.settle()
        counts = {event: self.stage.journal.count(event, self.key) for event in ("start", "end")}
        parts = [remark or describe(self.call)]
        parts += self.stage.left_behind(self.variant, *self.arguments)
        if end is None:
            parts.append(f"again: {self._answer()}")
        return Outcome(
            self.experiment,
            self.stage.subject.title,
            ours=self.stage.subject.ours,
            completed=end is not None,
            starts=counts["start"],
            ends=counts["end"],
            seconds=end.at - self.struck if end else None,
            waited=seconds,
            remark="; ".join(parts),
        )

    def _answer(self) -> str:
        """What whoever sends the lost call again is told, and whether it runs."""
        second = self.send_again()
        self.stage.watch.until(
            lambda: is_over(second) or self.stage.journal.count("end", self.key) > 0, seconds=AGAIN_SECONDS
        )
        ran = "done" if self.stage.journal.count("end", self.key) else "never runs"
        return f"{describe(second, first=self.call)}, {ran}"
