"""One host is cut off while it holds leases and atomic calls, and comes back when others have taken them."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from benchmarks.chaos import checker
from benchmarks.chaos.plan import PLAIN, Call, Kind, Plan, Setting
from benchmarks.chaos.verdict import Verdict, judge
from benchmarks.hosts.connections import Connections
from benchmarks.hosts.fleet import HostFleet
from benchmarks.hosts.network import Host
from benchmarks.hosts.taken import Event, Taken, parse, taken
from benchmarks.hosts.times import VISIBLE
from benchmarks.throughput.fleet import BrokenBenchmark
from django_idempotent_tasks.models import IdempotencyKey, Leader
from example_project.demo.programs import wait_until

KINDS = (Kind.RETURNED, Kind.COMPLETED, Kind.RESERVED, Kind.ATOMIC, Kind.RESERVED_ATOMIC)
#: Calls of each kind that the host holds.
EACH = 3
#: Children of the host that is cut off, with some for other calls; and of the others.
CHILDREN, OTHERS = len(KINDS) * EACH + 3, 5
HELD, LOAD = "hosts.held", "hosts.load"
#: Seconds in which others must have claimed all, and in which bodies of the host that is back must end.
PATIENCE, ENDING = 60.0, 60.0
#: Seconds without any progress after which a caller sends what the ledger does not know: the broker has
#: delivered everything again by then. And how often.
STALLED, AGAIN = 2 * VISIBLE + 10.0, 3


@dataclass(frozen=True)
class Outcome:
    """What became of all."""

    taken: list[Taken]
    verdict: Verdict
    calls: int
    cut_seconds: float
    #: Whether the sweeper led on the host that was cut off.
    led: bool
    #: Calls without a row that their caller has sent again, as the ledger did not know them.
    again: int


class Cut:
    """Carries it out once; ``directory`` is where the bodies write."""

    def __init__(
        self, fleet: HostFleet, hosts: Sequence[Host], directory: Path, connections: Connections
    ) -> None:
        self._fleet = fleet
        self._host = hosts[0]
        self._directory = directory
        self._connections = connections

    def carry_out(self, load: int, say: Callable[[str], None]) -> Outcome:
        """Hold, cut, wait for the others, let the host come back, and judge."""
        held, plan = _calls(load)
        names = self._fleet.names("guarded")
        own = next(name for name in names if name.endswith(f"@{self._host.name}"))
        _send(held, HELD)
        self._fleet.tell("add_consumer", HELD, [own])
        self._wait(lambda: self._begun() >= {call.key for call in held}, 60.0, "the host holds its calls")
        self._fleet.tell("add_consumer", HELD, [name for name in names if name != own])
        self._fleet.tell("add_consumer", LOAD, names)
        _send([call for call in plan.calls if call not in held], LOAD)
        self._wait(lambda: checker.ended(plan.prefix) >= load // 10, 120.0, "a tenth of the load is done")
        led = _leads(self._host.name)
        self._host.cut()
        cut_at = time.time()
        say(f"{self._host.name} is cut off, which holds {len(held)} calls; it led the sweep: {led}")
        self._wait(lambda: self._claimed(cut_at) >= {call.key for call in held}, PATIENCE)
        self._host.join()
        back_at = time.time()
        say(f"{self._host.name} is back after {back_at - cut_at:.0f} s; its bodies go on")
        (self._directory / "back").touch()
        self._wait(lambda: self._ended() >= {call.key for call in held}, ENDING)
        again = self._settle(plan)
        found = taken(
            held, self._events(), _results(held), host=self._host.name, cut_at=cut_at, back_at=back_at
        )
        return Outcome(
            found, judge(plan, checker.read(plan.prefix)), len(plan.calls), back_at - cut_at, led, again
        )

    def _settle(self, plan: Plan) -> int:
        """Wait until all have ended; how many had to be sent again."""
        again = 0
        for _ in range(AGAIN):
            if self._ends(plan):
                break
            known = checker.read(plan.prefix).keys
            unknown = [call for call in plan.calls if call.kind in PLAIN and call.key not in known]
            _send(unknown, LOAD)
            again += len(unknown)
        return again

    def _ends(self, plan: Plan) -> bool:
        """Whether all calls end; False where nothing has moved on for long."""
        last, before = time.monotonic(), 0
        while (ended := checker.ended(plan.prefix)) < len(plan.calls):
            if ended != before:
                last, before = time.monotonic(), ended
            if time.monotonic() - last > STALLED:
                return False
            self._connections.look()
            time.sleep(0.3)
        return True

    def _wait(self, condition: Callable[[], bool], seconds: float, what: str = "") -> None:
        """Wait for it; where it has a name the run makes no sense without it."""

        def looked() -> bool:
            self._connections.look()
            return condition()

        if not wait_until(looked, seconds=seconds, every=0.3) and what:
            raise BrokenBenchmark(f"It did not happen within {seconds:.0f} s that {what}.")

    def _events(self) -> list[Event]:
        journal = self._directory / "journal"
        return parse(journal.read_text()) if journal.exists() else []

    def _begun(self) -> set[str]:
        return {event.key for event in self._events() if event.what == "begun"}

    def _claimed(self, since: float) -> set[str]:
        return {
            event.key
            for event in self._events()
            if event.what == "begun" and event.host != self._host.name and event.at >= since
        }

    def _ended(self) -> set[str]:
        """The keys of which the host's own bodies have come to an end."""
        return {
            event.key for event in self._events() if event.what != "begun" and event.host == self._host.name
        }


def _calls(load: int) -> tuple[list[Call], Plan]:
    """Those that are held, and a plan of these and of the load, by which a chaos run's judge goes."""
    held = [Call(number, kind, f"s0-held-{number}", -1.0, 0, 0) for number, kind in enumerate(KINDS * EACH)]
    rng = random.Random("hosts")
    rest = [
        Call(number, KINDS[number % len(KINDS)], f"s0-{number}", round(rng.uniform(0, 0.05), 3), 0, 0)
        for number in range(len(held), len(held) + load)
    ]
    return held, Plan(0, Setting(len(held) + load, 0), (*held, *rest), ())


def _send(calls: Sequence[Call], queue: str) -> None:
    tasks = _tasks()
    by_kind = {
        Kind.RETURNED: tasks.returning,
        Kind.COMPLETED: tasks.completing,
        Kind.RESERVED: tasks.reserved,
        Kind.ATOMIC: tasks.committing,
        Kind.RESERVED_ATOMIC: tasks.reserved_atomically,
    }
    for call in calls:
        by_kind[call.kind].apply_async(kwargs={"key": call.key, "seconds": call.seconds}, queue=queue)


def _tasks() -> ModuleType:
    from benchmarks.hosts import tasks  # noqa: PLC0415  it wants HOSTS_DIRECTORY

    return tasks


def _leads(host: str) -> bool:
    holders = Leader.objects.filter(name="sweeper").values_list("holder", flat=True)
    return any(holder.startswith(f"{host}:") for holder in holders)


def _results(calls: Sequence[Call]) -> dict[str, str]:
    """By key, the host whose result is stored."""
    texts = {f"key={call.key}": call.key for call in calls}
    rows = IdempotencyKey.objects.filter(key_text__in=texts).values_list("key_text", "result")
    return {texts[text]: str(json.loads(result)) for text, result in rows if result}


def directory_for(logs: Path) -> Path:
    """A directory for the bodies' notes, which workers that are started from now on know."""
    directory = logs / "journal"
    directory.mkdir()
    os.environ["HOSTS_DIRECTORY"] = str(directory)
    return directory
