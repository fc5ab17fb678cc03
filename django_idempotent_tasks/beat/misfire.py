"""Decides which due times are sent, and which are passed over because no beat ran. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice

from .grid import Grid

#: How many times one call computes; a longer past needs several calls.
LOOKS = 10_000
#: How many messages one call sends; the next calls send more.
BITE = 100
#: How late a time may be before it counts as missed: longer than a failover, so that one misses nothing.
GRACE = timedelta(seconds=30)


class Misfire(StrEnum):
    """The policy for times that were missed while no beat ran."""

    COALESCE = "coalesce"  # one run, for the latest of them
    ALL = "all"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Missed:
    """The times to send, and how far the cursor moves; ``dropped``: how many times are passed over."""

    send: tuple[datetime, ...]
    cursor: datetime | None
    dropped: int = 0


def missed(grid: Grid, last: datetime | None, now: datetime, policy: Misfire) -> Missed:
    """What to send of the times since ``last``; more may be due after the returned cursor."""
    first = grid.after(last)
    if first is None or first > now:
        return Missed((), last)
    if policy is Misfire.ALL or now - first <= GRACE:
        send = tuple(islice(grid.until(last, now), BITE))
        return Missed(send, send[-1])
    return _latest(grid, last, now, policy)


def _latest(grid: Grid, last: datetime | None, now: datetime, policy: Misfire) -> Missed:
    near, passed = grid.leap(last, now)
    due = list(islice(grid.until(near, now), LOOKS + 1))
    if len(due) > LOOKS:
        return Missed((), due[-2], LOOKS)
    if policy is Misfire.SKIP and now - due[-1] > GRACE:
        return Missed((), due[-1], passed + len(due))
    return Missed((due[-1],), due[-1], passed + len(due) - 1)
