"""Computes the nominal times of a schedule with Celery's own schedule objects. No clock, no database."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from celery import schedules

#: How far past the last time to ask a schedule again that answers with this time or an earlier one: in an
#: hour that comes twice, Celery's crontab answers in the second round with times of the first.
_NUDGES = (timedelta(0), timedelta(seconds=1), *(timedelta(minutes=number) for number in range(1, 181)))
_MOMENT = timedelta(microseconds=1)


class NoTime(ValueError):
    """A schedule has no time later than its last one."""


class Grid:
    """The times of one schedule. All moments are aware; returned moments are in UTC.

    ``start``: the first time of an interval, and the earliest possible time of other schedules.
    """

    def __init__(self, schedule: Any, *, start: datetime | None = None) -> None:
        self.schedule = schedule
        self.start = start
        self._at = datetime.fromtimestamp(0, tz=UTC)
        # The time that "remaining" is counted from: never a host's clock, so that all beats agree.
        schedule.nowfun = lambda: self._at

    @property
    def once(self) -> datetime | None:
        """The only time of a clocked schedule; None for others."""
        moment = getattr(self.schedule, "clocked_time", None)
        return None if moment is None else _utc(moment)

    def after(self, last: datetime | None) -> datetime | None:
        """The first time after ``last``, or the first of all; None without any.

        Raises NoTime for a schedule that never moves on, and what the schedule itself raises.
        """
        if self.once is not None:
            return self.once if last is None or last < self.once else None
        if last is not None:
            return self._next(last)
        if self.start is None or self.every is not None:
            return self.start
        return self._next(self.start - _MOMENT)

    def until(self, last: datetime | None, now: datetime) -> Iterator[datetime]:
        """Each time after ``last`` that is not in the future."""
        due = self.after(last)
        while due is not None and due <= now:
            yield due
            due = self.after(due)

    def floor(self, moment: datetime) -> datetime:
        """The last time up to ``moment`` for an interval with a start; ``moment`` for other schedules."""
        if self.start is None or self.every is None or self.start > moment:
            return moment
        return self.start + (moment - self.start) // self.every * self.every

    def leap(self, last: datetime | None, now: datetime) -> tuple[datetime | None, int]:
        """For an interval, a time shortly before ``now``, and how many times that skips; else ``last``, 0."""
        base = self.start if last is None else last
        if base is None or self.every is None:
            return last, 0
        steps = (now - base) // self.every - 1
        return (base + steps * self.every, steps + (last is None)) if steps > 0 else (last, 0)

    @property
    def every(self) -> timedelta | None:
        """The period of a plain interval; None for other schedules."""
        schedule = self.schedule
        if type(schedule) is not schedules.schedule or schedule.relative:
            return None
        every: timedelta | None = vars(schedule)["run_every"]
        return every if every and every > timedelta(0) else None

    def _next(self, last: datetime) -> datetime:
        # A sunrise is computed to about a second: asked at its moment, the schedule may answer it again.
        for nudge in _NUDGES[2:] if isinstance(self.schedule, schedules.solar) else _NUDGES:
            self._at = last + nudge
            found: datetime = _utc(self._at) + self.schedule.remaining_estimate(self._at)
            if found > last + nudge:
                return found
        msg = f"{self.schedule!r} has no time after {last.isoformat()}"
        raise NoTime(msg)


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)
