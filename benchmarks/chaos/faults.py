"""Strikes at the processes of a chaos run; those at its servers are in :mod:`benchmarks.chaos.outages`."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection, Sequence

from celery import Celery
from django.db import connection

from benchmarks.chaos.cuts import Cuts
from benchmarks.chaos.fleet import TELLING, Fleet, Place, signal_group, worker_words
from benchmarks.chaos.later import Later
from benchmarks.chaos.outages import Outages
from benchmarks.chaos.plan import OF_A_CLOCK, OF_A_HOST, Fault, Strike
from benchmarks.chaos.victims import at_work, pick
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.sweeper.sweep import sweep_once
from example_project.demo.programs import Program
from example_project.servers.process import send_signal

#: Seconds that a strike waits for a worker to strike at.
PATIENCE = 20.0
#: Of the strikes at children, those that choose one that is at work.
AT_WORK = 0.7
#: Tries to let a child stand still that holds a key.
CHANCES = 20
#: Seconds by which a clock is ahead: longer than a lease, shorter than a retention.
AHEAD = (6, 30)
#: Seconds by which a host's clock is set wrong: far more than any lease or visibility timeout here.
WRONG = 300


class Faults:
    """Strikes as a plan says."""

    def __init__(self, fleet: Fleet, outages: Outages, app: Celery, later: Later) -> None:
        self._fleet = fleet
        self._outages = outages
        self._app = app
        self._later = later
        self.cuts = Cuts(fleet, later)
        #: Children that were killed, which their worker has not missed yet.
        self._killed: set[int] = set()
        #: Children that stand still: another one is chosen to do so.
        self._frozen: set[int] = set()
        self._acts: dict[Strike, Callable[[Fault], str]] = {
            Strike.CHILD_KILLED: self._kill_child,
            Strike.CHILD_FROZEN: self._freeze_child,
            Strike.WORKER_REPLACED: self._replace_worker,
            Strike.WORKER_STOPPED_COLD: self._stop_cold,
            Strike.WORKER_STOPPED_EARLY: self._stop_early,
            Strike.DEPLOYMENT: self._deploy,
            Strike.CLOCK_AHEAD: self._sweep_ahead,
        }

    def strike(self, fault: Fault) -> str:
        """Do it; what was done, nothing where there was nobody to strike at."""
        if act := self._acts.get(fault.strike):
            return act(fault)
        if fault.strike in OF_A_HOST:
            return self.cuts.strike(fault)
        role, _, what = fault.strike.value.partition(" ")
        if role in {"database", "standby", "pooler", "broker"}:
            return self._outages.strike(fault, self._later.rest)
        place = self._chosen(fault, "web" if role == "web" else role)
        if place is None:
            return ""
        if fault.strike in OF_A_CLOCK:
            return self._set_clock(fault, place)
        return self._freeze(fault, place) if what == "frozen" else self._kill(place)

    def _chosen(self, fault: Fault, role: str) -> Place | None:
        if role == "worker":
            return self._worker(fault)
        return pick(fault, [place for place in self._fleet.of(role) if place.alive])

    def _worker(self, fault: Fault) -> Place | None:
        """A worker that takes messages, waited for where none does."""
        end = time.monotonic() + PATIENCE
        while not (ready := self._fleet.ready_workers()) and time.monotonic() < end:
            self._fleet.look_after()
            self._later.rest(0.1)
        return pick(fault, ready)

    def _kill(self, place: Place) -> str:
        name = place.program.name if place.program else place.name
        self._fleet.kill(place)
        return f"killed {name}"

    def _freeze(self, fault: Fault, place: Place) -> str:
        program = place.program
        if program is None:
            return ""
        signal_group(program, signal.SIGSTOP)
        self._later.add(fault.seconds, lambda: signal_group(program, signal.SIGCONT))
        return f"froze {program.name} for {fault.seconds} s"

    def _set_clock(self, fault: Fault, place: Place) -> str:
        """Let a host's clock be wrong for a while; whatever begins there meanwhile has the same clock."""
        clocks = self._fleet.clocks
        if clocks is None:
            return ""
        wrong = WRONG if int(fault.seconds * 100) % 2 else -WRONG
        clocks.set(place.name, wrong)
        self._later.add(fault.seconds, lambda: clocks.set(place.name, 0))
        return f"set the clock of {place.name} {wrong:+d} s wrong for {fault.seconds} s"

    def _kill_child(self, fault: Fault) -> str:
        pid, name = self._child(fault)
        if pid:
            send_signal(pid, signal.SIGKILL)
            self._killed.add(pid)
        return f"killed child {pid} of {name}" if pid else ""

    def _freeze_child(self, fault: Fault) -> str:
        """Let a child stand still that holds a key, until long after its lease where possible."""
        for _ in range(CHANCES):
            pid, name = self._child(fault, besides=self._frozen)
            if not pid:
                return ""
            send_signal(pid, signal.SIGSTOP)
            if connection.vendor == "sqlite" or pid in at_work():  # SQLite may be locked by that child
                break
            send_signal(pid, signal.SIGCONT)  # its work has ended meanwhile
            self._later.rest(0.05)
        send_signal(pid, signal.SIGSTOP)
        self._frozen.add(pid)
        self._later.add(fault.seconds, lambda: self._let_go_on(pid))
        return f"froze child {pid} of {name} for {fault.seconds} s"

    def _let_go_on(self, pid: int) -> None:
        self._frozen.discard(pid)
        send_signal(pid, signal.SIGCONT)

    def _child(self, fault: Fault, *, besides: Collection[int] = ()) -> tuple[int, str]:
        """A child beside these, if possible one that is at work, and its worker's name."""
        if self._worker(fault) is None:
            return 0, ""
        owned = {pid: place.name for place in self._fleet.ready_workers() for pid in place.children()}
        living = set(owned) - self._killed - set(besides)
        busy = sorted(living & at_work()) if fault.pick < AT_WORK else []
        pid = pick(fault, busy or sorted(living))
        return (pid, owned[pid]) if pid else (0, "")

    def _replace_worker(self, fault: Fault) -> str:
        place = self._worker(fault)
        if place is None or place.program is None:
            return ""
        old = place.program
        self._fleet.ask_to_end(old)
        return f"asked {old.name} to end, began {self._fleet.begin(place).name}"

    def _stop_cold(self, fault: Fault) -> str:
        place = self._worker(fault)
        if place is None or place.program is None:
            return ""
        old = place.program
        self._fleet.ask_to_end(old, signal.SIGQUIT)
        return f"stopped {old.name} cold, began {self._fleet.begin(place).name}"

    def _stop_early(self, fault: Fault) -> str:
        name = f"early-{fault.number}-{int(time.monotonic())}"
        self._fleet.early.append(Program(name, worker_words(name), self._fleet.logs, TELLING))
        return f"began {name}, which is asked to end as soon as it is ready"

    def _deploy(self, _fault: Fault) -> str:
        """Replace worker after worker: the next one once the one before is ready."""
        places = self._fleet.of("worker")
        self._replace_in_turn(places)
        return f"began to replace {', '.join(place.name for place in places)}, one after the other"

    def _replace_in_turn(self, places: Sequence[Place]) -> None:
        if not places:
            return
        first, *others = places
        old, end = first.program, time.monotonic() + PATIENCE
        self._fleet.begin(first)

        def go_on() -> None:
            if not first.ready and time.monotonic() < end:
                self._later.add(0.2, go_on)
                return
            if old is not None:
                self._fleet.ask_to_end(old)
            self._replace_in_turn(others)

        self._later.add(0.2, go_on)

    def _sweep_ahead(self, fault: Fault) -> str:
        if not self._fleet.of("sweeper"):  # it is left out on purpose
            return ""
        low, high = AHEAD
        ahead = low + int(fault.pick * (high - low))
        with shifted(ahead):
            swept = sweep_once(self._app, get_store())
        return f"swept {swept} keys by a clock that is {ahead} s ahead"
