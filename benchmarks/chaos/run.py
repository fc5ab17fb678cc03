"""One run: calls and faults at the same time, then silence, then the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from celery import Celery
from django.db import Error as DatabaseError
from django.db import connection

from benchmarks.chaos import checker
from benchmarks.chaos.faults import Faults
from benchmarks.chaos.fleet import Fleet
from benchmarks.chaos.later import Later
from benchmarks.chaos.levels import Levels
from benchmarks.chaos.outages import Outages
from benchmarks.chaos.pace import Pace
from benchmarks.chaos.plan import Fault, Kind, Plan, Strike
from benchmarks.chaos.servers import OwnServers
from benchmarks.chaos.verdict import Verdict, judge
from benchmarks.throughput.fleet import BrokenBenchmark
from django_idempotent_tasks.conf import settings
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.sweeper.sweep import sweep_once

#: Seconds without any progress after which the next fault strikes all the same.
STALLED = 20.0
#: Seconds between two faults at least: each has to meet something at work.
GAP = 0.3
#: Seconds without work for the ledger in which the broker may keep messages until a moment that a wrong clock
#: gave them: longer than its visibility timeout.
KEPT = 14.0
#: Seconds between two words about what is left.
TOLD = 5.0
#: Seconds that pass at once for the sweeper, when all that is left waits and nothing runs; how that is seen.
PASSED, RUNS = 60, "is running"
#: Seconds that senders may take when no fault strikes any more, and that the rest may take to end.
SENDING, SETTLING = 400.0, 180.0

TOO_SLOW = (
    "Seed {seed} has run for longer than the {seconds} s for which the ledger keeps keys: they are not all"
    " there to be judged any more. This machine has too little time for so many calls: give fewer by --calls."
)


@dataclass(frozen=True)
class Struck:
    """A fault with its moment, the part of the calls that had ended, and what was done."""

    fault: Fault
    at: float
    progress: float
    words: str


@dataclass
class Outcome:
    """What a run was and what became of it."""

    plan: Plan
    verdict: Verdict
    struck: list[Struck]
    notes: list[str]
    seconds: float
    left_in_broker: int
    #: What became of what hosts held that were cut off.
    cuts: list[str] = field(default_factory=list)
    #: The kinds of faults that this machine does not allow, each with the reason.
    left_out: dict[Strike, str] = field(default_factory=dict)


@dataclass
class Run:
    """Carries out one plan on a fleet that runs; the fleet goes on afterwards."""

    plan: Plan
    servers: OwnServers
    fleet: Fleet
    app: Celery
    levels: Levels
    pace: Pace
    say: Callable[[str], None]
    struck: list[Struck] = field(default_factory=list)
    _later: Later = field(default_factory=Later)
    _cuts: list[str] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)
    _progress: float = 0.0
    _looked: float = 0.0
    _busy_at: float = 0.0
    _told: float = 0.0

    def carry_out(self) -> Outcome:
        """Do everything, and judge."""
        faults = Faults(self.fleet, Outages(self.servers), self.app, self._later)
        self._cuts = faults.cuts.told
        for fault in self.plan.faults:
            self._go_on_until(lambda: self._progress >= fault.at, STALLED)  # noqa: B023  done at once
            self._strike(faults, fault)
            self.pace.struck(len(self.struck), self.plan)
            self._later.rest(GAP)
        self.say("the last fault has struck; the rest of the calls ends undisturbed")
        self._go_on_until(lambda: not self._later.waits, SETTLING)
        self._go_on_until(self.fleet.senders_are_done, SENDING)
        return self._judged()

    def _judged(self) -> Outcome:
        self.fleet.stop("beat", "sender")
        self.say("all calls are sent; waiting until nothing is left to do")
        self._busy_at = time.monotonic()
        self._go_on_until(self._is_quiet, SETTLING)
        verdict = judge(self.plan, checker.read(self.plan.prefix))
        seconds = time.monotonic() - self._began
        notes = self.fleet.notes
        return Outcome(self.plan, verdict, self.struck, notes, seconds, self._left(), self._cuts)

    def _strike(self, faults: Faults, fault: Fault) -> None:
        at, progress = time.monotonic() - self._began, self._progress
        try:
            words = faults.strike(fault) or "nobody to strike at"
        except Exception as error:  # noqa: BLE001  a strike that fails is told of, and the run goes on
            connection.close()
            words = f"failed: {error!r}"
        self.struck.append(Struck(fault, at, progress, words))
        self.say(f"{progress:4.0%}  {words}")

    def _go_on_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Look after everything until this holds; False where it does not, so long after any progress."""
        last, before = time.monotonic(), self._progress
        while not condition():
            self._look()
            if self._progress != before:
                last, before = time.monotonic(), self._progress
            if time.monotonic() - last > seconds:
                return False
            self._later.rest(0.05)
        return True

    def _look(self) -> None:
        if time.monotonic() - self._looked < 0.3:  # noqa: PLR2004
            return
        kept = settings().retention
        if time.monotonic() - self._began > kept:
            raise BrokenBenchmark(TOO_SLOW.format(seed=self.plan.seed, seconds=kept))
        self.fleet.look_after()
        self._progress = self._ended()
        self.levels.look(self._roots())
        self._looked = time.monotonic()

    def _ended(self) -> float:
        """The part of the calls whose keys have ended; the last one known while the database is away."""
        keys = {call.key for call in self.plan.calls if call.kind is not Kind.BATCH}
        try:
            return min(1.0, checker.ended(self.plan.prefix) / max(1, len(keys)))
        except DatabaseError:
            connection.close()
            return self._progress

    def _is_quiet(self) -> bool:
        """Whether nothing is left to do, also as far as the broker knows, or will soon know."""
        now = time.monotonic()
        try:
            if waiting := checker.waiting():
                self._busy_at = now
                if now - self._told > TOLD:
                    self._told = now
                    self.say(f"{len(waiting)} left, such as: {waiting[0]}")
                    self._hasten(waiting)
                return False
            return not self._left() or now - self._busy_at > KEPT
        except DatabaseError:
            connection.close()
            return False

    def _hasten(self, waiting: Sequence[str]) -> None:
        """Let pass the time until the next copy of calls whose messages got lost several times."""
        if self.fleet.of("sweeper") and not any(text.endswith(RUNS) for text in waiting):
            with shifted(PASSED):
                sweep_once(self.app, get_store())

    def _left(self) -> int:
        """Messages that the broker still has, 1 where it does not say; of RabbitMQ those that wait."""
        queue = self.app.conf.task_default_queue
        try:
            with self.app.connection_for_read() as link:
                channel: Any = link.default_channel
                if link.transport.driver_type == "redis":
                    return int(channel.client.llen(queue) + channel.client.hlen("unacked"))
                return int(channel.queue_declare(queue, passive=True).message_count)
        except Exception:  # noqa: BLE001  the brokers' drivers have errors of many classes
            return 1

    def _roots(self) -> dict[str, list[int]]:
        roots: dict[str, list[int]] = {}
        for place in self.fleet.places:
            if place.program is not None and place.alive:
                roots.setdefault(place.role, []).append(place.program.pid)
        roots.setdefault("worker", []).extend(program.pid for program, _ in self.fleet.ending)
        for name in ("database", "broker", "pooler"):
            server = getattr(self.servers, name)
            if server is not None:
                roots[name] = [server.pid]
        return roots
