"""Reads the newest keys once: what was done in the last hour, by minute, and in the hour that is not over."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from ...ledger.moments import exact
from ...models import DEAD, IdempotencyKey
from ...operations.counts import CAP, Count
from ...operations.durations import floor
from ...states import Category, State
from ..words.ledger import alias

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
#: What is counted of each hour.
COLUMNS = ("succeeded", "failed", "duplicates", "crashes")
_READ = ("state", "created_at", "finished_at", "duplicates", "crashes", "category")


class _Key(NamedTuple):
    state: int
    made: datetime
    ended: datetime | None
    duplicates: int
    crashes: int
    category: int | None

    @property
    def kind(self) -> str | None:
        """How it ended; an end that its task expects is no failure. None of one that did not end."""
        is_expected = self.state == State.FAILED and self.category == Category.EXPECTED
        if self.state == State.SUCCEEDED or is_expected:
            return "succeeded"
        return "failed" if self.state in DEAD else None


@dataclass(frozen=True, slots=True)
class Recent:
    """The keys made in the last hour, the newest first; ``is_part``: only the newest ``CAP`` of them."""

    now: datetime
    keys: list[_Key]
    is_part: bool

    @property
    def since(self) -> datetime:
        """From when on all keys were read."""
        made = [key.made for key in self.keys[-1:]] if self.is_part else []
        return made[0] if made else exact(self.now) - HOUR

    def this_hour(self) -> dict[str, Count]:
        """The totals of the hour that is not over, by the hour in which a key was made."""
        begin = exact(floor(self.now))
        keys = [key for key in self.keys if key.made >= begin]
        is_bound = self.is_part and self.since >= begin
        numbers = {
            "succeeded": sum(key.kind == "succeeded" for key in keys),
            "failed": sum(key.kind == "failed" for key in keys),
            "duplicates": sum(key.duplicates for key in keys),
            "crashes": sum(key.crashes for key in keys),
        }
        return {kind: Count(number, is_bound) for kind, number in numbers.items()}

    def done_this_hour(self) -> Count:
        """The keys that succeeded in the hour that is not over, or ended as expected."""
        begin = exact(floor(self.now))
        done = [key for key in self.keys if key.kind == "succeeded" and key.ended and key.ended >= begin]
        return Count(len(done), self.is_part)

    def minutes(self) -> dict[datetime, dict[str, int]]:
        """What ended in each minute of the last hour, with a result, as expected, or as a dead letter."""
        last = exact(self.now).replace(second=0, microsecond=0)
        found = {last - number * MINUTE: {"succeeded": 0, "failed": 0} for number in range(59, -1, -1)}
        for key in self.keys:
            minute = key.ended and key.ended.replace(second=0, microsecond=0)
            if minute in found and key.kind:
                found[minute][key.kind] += 1
        return found


def recent(now: datetime) -> Recent:
    """Read them, by one statement of at most ``CAP`` rows of an index."""
    keys = IdempotencyKey.objects.using(alias()).filter(created_at__gte=now - HOUR).order_by("-created_at")
    rows = list(keys.values_list(*_READ)[: CAP + 1])
    found = [
        _Key(state, exact(made), None if ended is None else exact(ended), *others)
        for state, made, ended, *others in rows[:CAP]
    ]
    return Recent(now, found, len(rows) > CAP)
