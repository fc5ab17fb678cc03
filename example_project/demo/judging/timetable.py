"""Judges the periodic jobs: what was due, and what ran. Pure, so that tests show that it can fail."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Job:
    """The times that beat has sent, from the first one on, and those of the rows that its runs left."""

    due: tuple[datetime, ...]
    ran: tuple[datetime, ...]


def grid(first: datetime, last: datetime, step: timedelta) -> tuple[datetime, ...]:
    """Every time from the first to the last."""
    return tuple(first + number * step for number in range((last - first) // step + 1))


def deviations(jobs: Mapping[str, Job]) -> Iterator[str]:
    """Say which times did not run, ran twice, or ran unasked, and which jobs show nothing."""
    for name, job in jobs.items():
        if not job.due:
            yield f"{name} was never due"
        found = Counter(job.ran)
        yield from _told(name, sorted(set(job.due) - found.keys()), "did not run")
        yield from _told(name, sorted(found.keys() - set(job.due)), "ran, and was not due")
        yield from _told(name, sorted(moment for moment, times in found.items() if times > 1), "ran twice")


def _told(name: str, moments: Iterable[datetime], what: str) -> Iterator[str]:
    for moment in moments:
        yield f"{name} of {moment:%H:%M:%S.%f} {what}"
