"""What became of calls that a host held when it was cut off. Pure, so that tests show that it can fail."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.chaos.plan import Call, Kind


class Event(NamedTuple):
    """What a body has noted."""

    what: str
    key: str
    host: str
    at: float


@dataclass(frozen=True)
class Taken:
    """Of one kind: seconds from the cut until claims elsewhere, and how the first host's bodies ended."""

    kind: str
    held: int
    seconds: tuple[float, ...]
    ends: tuple[str, ...]
    #: Keys that nobody else has claimed, and those whose stored result is of the host that was cut off.
    unclaimed: tuple[str, ...]
    unfenced: tuple[str, ...]

    @property
    def may_wait(self) -> bool:
        """Whether nothing but the broker's message is promised to bring a call back.

        Redis hands a message to a host that has asked for one and is cut off, and has it no more then.
        """
        return self.kind == Kind.ATOMIC

    @property
    def broken(self) -> list[str]:
        """What must not be."""
        lost = () if self.may_wait else self.unclaimed
        return [
            *(f"{key} ({self.kind}): nobody claimed it while its host was cut off" for key in lost),
            *(f"{key} ({self.kind}): the host that was cut off completed it" for key in self.unfenced),
        ]


def parse(journal: str) -> list[Event]:
    """The events of a journal, without a line that is still being written."""
    return [Event(*json.loads(line)) for line in journal.splitlines() if line.endswith("]")]


def taken(
    calls: Sequence[Call],
    events: Sequence[Event],
    results: Mapping[str, str],
    *,
    host: str,
    cut_at: float,
    back_at: float,
) -> list[Taken]:
    """By kind, what became of the calls that ``host`` held between the cut and its return."""
    elsewhere: dict[str, float] = {}
    ends: dict[str, str] = {}
    for event in events:
        if event.what == "begun" and event.host != host and cut_at <= event.at <= back_at:
            elsewhere.setdefault(event.key, event.at - cut_at)
        if event.what != "begun" and event.host == host:
            ends.setdefault(event.key, event.what)
    return [
        _of_kind(kind, [call.key for call in calls if call.kind == kind], elsewhere, ends, results, host)
        for kind in dict.fromkeys(call.kind for call in calls)
    ]


def _of_kind(
    kind: str,
    keys: Sequence[str],
    elsewhere: Mapping[str, float],
    ends: Mapping[str, str],
    results: Mapping[str, str],
    host: str,
) -> Taken:
    counted = Counter(ends.get(key, "no word") for key in keys)
    return Taken(
        kind=str(kind),
        held=len(keys),
        seconds=tuple(sorted(elsewhere[key] for key in keys if key in elsewhere)),
        ends=tuple(f"{number} {what}" for what, number in sorted(counted.items())),
        unclaimed=tuple(key for key in keys if key not in elsewhere),
        unfenced=tuple(key for key in keys if results.get(key) == host),
    )
