"""Judges an upload: compares each line with what came of it. Pure, so that tests show that it can fail."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .sheet import PLACES_OF_VIPS, Sheet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

EFFECTS = ("registered", "charged", "booked", "noted", "printed")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is found afterwards, by line. The lists have an entry for each row, so a doubled effect is twice.

    ``charged`` is the gateway's, ``printed`` the printer's; ``booked`` and ``noted`` are the project's rows
    of both. ``first`` is the category of each line that had failed before the bank was up again, ``last``
    what is left of that.
    """

    registered: Iterable[int]
    charged: Iterable[int]
    booked: Iterable[int]
    noted: Iterable[int]
    printed: Iterable[int]
    unpaid: Iterable[int]
    first: Mapping[int, str]
    last: Mapping[int, str]
    callbacks_before: int
    callbacks: int


@dataclass(frozen=True, slots=True)
class Judged:
    """Each tuple names what is wrong; all are empty after a run that kept its promise."""

    lost: tuple[str, ...]
    doubled: tuple[str, ...]
    unexpected: tuple[str, ...]
    wrong: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.lost or self.doubled or self.unexpected or self.wrong)


def judge(sheet: Sheet, found: Outcome) -> Judged:
    """Say which lines were lost, doubled, registered unasked, or have the wrong category."""
    due = _due(sheet, set(found.registered))
    lost, doubled, unexpected = list(_too_few(sheet, set(found.registered))), [], []
    for effect in EFFECTS:
        times = Counter(getattr(found, effect))
        lost += [f"line {line} was not {effect}" for line in sorted(due - times.keys())]
        doubled += [f"line {line} was {effect} {count} times" for line, count in times.items() if count > 1]
        unexpected += [f"line {line} was {effect} unasked" for line in sorted(times.keys() - due)]
    lost += [f"line {line} is not paid" for line in sorted(found.unpaid)]
    return Judged(tuple(lost), tuple(doubled), tuple(unexpected), tuple(_wrong(sheet, due, found)))


def _due(sheet: Sheet, registered: set[int]) -> set[int]:
    """The lines that must have every effect, once; where the first one wins, those that did."""
    winners = {line for pair in sheet.pairs for line in sorted(pair & registered)[:1]}
    return set(sheet.good | sheet.patrons) | winners | set(sorted(sheet.vips & registered)[:PLACES_OF_VIPS])


def _too_few(sheet: Sheet, registered: set[int]) -> Iterator[str]:
    for pair in sheet.pairs:
        if not pair & registered:
            yield f"neither of the lines {sorted(pair)} was registered"
    if len(sheet.vips & registered) < PLACES_OF_VIPS:
        yield f"{len(sheet.vips & registered)} of {PLACES_OF_VIPS} places were given away"


def _wrong(sheet: Sheet, due: set[int], found: Outcome) -> Iterator[str]:
    twice = frozenset().union(*sheet.pairs)
    last = dict.fromkeys(sheet.fatal, "fatal") | dict.fromkeys((twice | sheet.vips) - due, "manual_review")
    yield from _differing("at first", last | dict.fromkeys(sheet.patrons, "retryable"), found.first)
    yield from _differing("in the end", last, found.last)
    if (found.callbacks_before, found.callbacks) != (0, 1):
        yield f"the callback came {found.callbacks_before} times before the end, {found.callbacks} in all"


def _differing(when: str, due: Mapping[int, str], found: Mapping[int, str]) -> Iterator[str]:
    for line in sorted(due.keys() | found.keys()):
        if due.get(line) != found.get(line):
            yield f"line {line} is {found.get(line)} {when}, not {due.get(line)}"
