"""What becomes of times that are due: sent, or passed over because beat was away for too long. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice

from .grid import Grid

#: Times that one look computes; a longer past is walked through in several.
LOOKS = 10_000
#: Messages that one look sends; more are sent by the next ones.
BITE = 100
#: How late a time may be before it counts as missed. Longer than a failover, which misses nothing.
GRACE = timedelta(seconds=30)


class Misfire(StrEnum):
    """What becomes of the times that were missed while no beat ran."""

    COALESCE = "coalesce"  # one run, for the latest of them
    ALL = "all"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Missed:
    """What is due: the times to send, and how far the cursor moves; ``dropped`` were passed over."""

    send: tuple[datetime, ...]
    cursor: datetime | None
    dropped: int = 0


def missed(grid: Grid, last: datetime | None, now: datetime, policy: Misfire) -> Missed:
    """What to send of what is due since ``last``; more may be due after its cursor."""
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
