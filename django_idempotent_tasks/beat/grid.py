"""The nominal times of a schedule, as Celery's own schedule objects give them. Pure: no clock, no database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from celery import schedules

#: Occurrences that one look computes; a longer past is walked through in several.
LOOKS = 10_000
#: Seconds by which an occurrence may be late before it counts as missed.
GRACE = 60


class Misfire(StrEnum):
    """What becomes of occurrences that were missed while no beat ran."""

    COALESCE = "coalesce"  # one run, for the latest of them
    ALL = "all"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Missed:
    """What is due: the times to send, and how far the cursor moves; ``dropped`` were passed over."""

    send: tuple[datetime, ...]
    cursor: datetime | None
    dropped: int = 0


class Grid:
    """The times of one schedule after a given one."""

    def __init__(self, schedule: Any, *, first: datetime | None = None) -> None:
        self.schedule = schedule
        #: The time of the first occurrence where the schedule has been given one.
        self.first = first
        self._at = datetime.fromtimestamp(0, tz=UTC)
        # What "remaining" is counted from: never the machine's clock, so that the answer is the same anywhere.
        schedule.nowfun = lambda: self._at

    def after(self, last: datetime | None) -> datetime | None:
        """The first time after ``last``; None when there is none."""
        once = getattr(self.schedule, "clocked_time", None)
        if once is not None:
            return None if last is not None and last >= once else _utc(once)
        if last is None:
            return self.first
        self._at = last
        found = _utc(last) + self.schedule.remaining_estimate(last)
        return found if found > last else last + timedelta(seconds=1)

    def until(self, last: datetime | None, now: datetime) -> Iterator[datetime]:
        """Each time after ``last`` that is not in the future."""
        due = self.after(last)
        while due is not None and due <= now:
            yield due
            due = self.after(due)

    def leap(self, last: datetime | None, now: datetime) -> datetime | None:
        """A time of the grid from which ``now`` is near: a long past of a plain interval is one step."""
        every = getattr(self.schedule, "run_every", None)
        is_plain = type(self.schedule) is schedules.schedule and not self.schedule.relative
        if last is None or not is_plain or not isinstance(every, timedelta) or every <= timedelta(0):
            return last
        steps = (now - last) // every - 1
        return last + max(steps, 0) * every


def missed(grid: Grid, last: datetime | None, now: datetime, policy: Misfire) -> Missed:
    """What to send of what is due since ``last``."""
    start = last if policy is Misfire.ALL else grid.leap(last, now)
    due: list[datetime] = []
    for moment in grid.until(start, now):
        due.append(moment)
        if len(due) == LOOKS:
            break
    if not due:
        return Missed((), last)
    send = tuple(due) if policy is Misfire.ALL else tuple(due[-1:])
    if len(due) == LOOKS and policy is not Misfire.ALL:
        send = ()  # there is more to come, and only the latest counts
    elif policy is Misfire.SKIP and (now - due[-1]).total_seconds() > GRACE:
        send = ()
    return Missed(send, due[-1], len(due) - len(send))


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)
