"""Shows the finished steps of a key's work on its page."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _

from ...ledger.moments import exact
from ...ledger.rows import steps_of
from ...messages.message import pretty
from ...models import IdempotencyKey, Step
from ...operations.text import span
from .wording import block, shown

#: Seconds from which on tenths say nothing.
LONG = 60


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
        StepLine(shown(step.name), step.attempt, _took(step), _value(step) if values else "")
        for step in steps_of(row, values=values)
    ]


def _took(step: Step) -> str:
    seconds = (exact(step.finished_at) - exact(step.started_at)).total_seconds()
    return span(seconds) if seconds >= LONG else _("%(seconds).1f s") % {"seconds": seconds}


def _value(step: Step) -> str:
    return "null" if step.value is None else block(pretty(step.value))
