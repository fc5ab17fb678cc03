"""The arithmetic: medians, ratios to another variant in the same rounds, and their spread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor, sqrt
from statistics import median


@dataclass(frozen=True)
class Comparison:
    """One variant beside another: both measured once in each round, so that a slow minute hits both."""

    of_medians: float
    of_rounds: float
    lowest: float
    highest: float


def compare(measured: Sequence[float], base: Sequence[float]) -> Comparison:
    """Compare two series, round by round.

    ``of_medians`` is the ratio of the two medians, ``of_rounds`` the median of the rounds' ratios,
    ``lowest`` and ``highest`` their extremes. Raises ValueError for series of different length.
    """
    ratios = [one / other for one, other in zip(measured, base, strict=True)]
    return Comparison(median(measured) / median(base), median(ratios), min(ratios), max(ratios))


def spread(values: Sequence[float]) -> float:
    """Half the distance between the extremes, as a part of the median."""
    return (max(values) - min(values)) / 2 / median(values)


def doubt(ratios: Sequence[float]) -> float:
    """How far the median of rounds may be from the true one, as a part of it, in 19 of 20 runs.

    Half the distance between two of the ratios, by their order alone: few disturbed rounds do not count.
    """
    ordered, middle = sorted(ratios), median(ratios)
    left_out = max(floor(len(ordered) / 2 - 0.98 * sqrt(len(ordered))), 0)
    return (ordered[-1 - left_out] - ordered[left_out]) / 2 / middle


def known_median(values: Iterable[float | None]) -> float | None:
    """The median of those that are known; None when none is."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def alternating(names: Sequence[str], rounds: int) -> list[list[str]]:
    """The order in each round: there and back, so that no variant always follows the same one."""
    return [list(names) if number % 2 == 0 else list(reversed(names)) for number in range(rounds)]


def per_task(before: float, after: float, count: int) -> float:
    """What each of ``count`` tasks took of something that was read before and after them."""
    return (after - before) / count
