"""Shows the finished steps of a key's work on its page."""

from __future__ import annotations

from dataclasses import dataclass

from ...ledger.rows import steps_of
from ...messages.message import pretty
from ...models import IdempotencyKey, Step
from .cells import took
from .wording import block, shown


@dataclass(frozen=True, slots=True)
class StepLine:
    """One step; ``value`` is empty for who may not see it."""

    name: str
    attempt: int
    took: str
    value: str


def step_lines(row: IdempotencyKey, *, values: bool) -> list[StepLine]:
    """The steps in their order, their values only where they may be seen."""
    return [
        StepLine(
            shown(step.name),
            step.attempt,
            took(step.started_at, step.finished_at),
            _value(step) if values else "",
        )
        for step in steps_of(row, values=values)
    ]


def _value(step: Step) -> str:
    return "null" if step.value is None else block(pretty(step.value))
