"""The processes of a chaos run: each has a place, in which another one begins when it has ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.chaos.links import Links
from benchmarks.chaos.reasons import reason_of
from benchmarks.machine.clock import Clocks
from example_project.demo.programs import Program, stop_all, wait_until

CHILDREN = 2
#: Seconds after SIGTERM in which a worker has to have ended: no body takes as long.
ENDING = 45.0
QUIET = ("--without-mingle", "--without-gossip", "--without-heartbeat", "--loglevel", "INFO")
READY = b" ready."
#: Lets a process say where it is when it is told to abort.
TELLING = {"PYTHONFAULTHANDLER": "1"}


@dataclass
class Place:
    """Where one program runs after the other: ``worker1`` and the like."""

    name: str
    words: Sequence[str]
    #: Whether it is meant to end by itself, as a sender that has sent all.
    ends: bool = False
    program: Program | None = None
    begun: int = 0

    @property
    def role(self) -> str:
        """What its programs are: ``worker`` and the like."""
        return self.name.rstrip("0123456789")

    @property
    def alive(self) -> bool:
        """Whether a program runs there."""
        return self.program is not None and self.program.running

    @property
    def ready(self) -> bool:
        """Whether a worker takes messages."""
        return self.alive and self.program is not None and READY in self.program.log.read_bytes()

    def children(self) -> list[int]:
        """The processes of the pool."""
        return self.program.children() if self.alive and self.program is not None else []


@dataclass
class Fleet:
    """All places, those that are about to end, and what was unusual about an end."""

    logs: Path
    places: list[Place] = field(default_factory=list)
    #: Workers that were asked to end, with the moment by which they must have.
    ending: list[tuple[Program, float]] = field(default_factory=list)
    #: Workers that are asked to end as soon as they are ready.
    early: list[Program] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    #: The logs of those that ended by themselves, or did not end when they were asked to.
    hung: list[Path] = field(default_factory=list)
    #: A clock for each place, where clocks can be set.
    clocks: Clocks | None = None
    #: The hosts of the places that have one of their own.
    links: Links = field(default_factory=Links)

    def add(self, role: str, words: Sequence[str], *, number: int = 1, ends: bool = False) -> None:
        """Make so many places for one role, numbered where there are several."""
        for each in range(number):
            name = f"{role}{each + 1}" if number > 1 else role
            self.places.append(
                Place(name, [word.format(name=name, number=each) for word in words], ends=ends)
            )

    def add_workers(self, number: int) -> None:
        """Make places for workers."""
        self.add("worker", worker_words("{name}"), number=number)

    def of(self, role: str) -> list[Place]:
        """The places of a role."""
        return [place for place in self.places if place.role == role]

    def begin(self, place: Place) -> Program:
        """Start the next program of a place."""
        place.begun += 1
        clock = self.clocks.environment(place.name) if self.clocks else {}
        name, words = f"{place.name}-{place.begun}", self.links.words(place.name, place.words)
        environment = {**TELLING, **clock, **self.links.environment(place.name)}
        place.program = Program(name, words, self.logs, environment)
        return place.program

    def begin_all(self) -> None:
        """Start one in each place where none runs."""
        for place in self.places:
            if place.program is None:
                self.begin(place)

    def ready_workers(self) -> list[Place]:
        """Workers that take messages."""
        return [place for place in self.of("worker") if place.ready]

    def kill(self, place: Place) -> None:
        """End a program with all its processes, as the loss of its host does, and start the next one."""
        if place.program is not None:
            place.program.kill()
        self.begin(place)

    def lose(self, place: Place) -> None:
        """End all that runs on a place's host, also what was asked to end, and start the next on another."""
        for program, _until in self.ending:
            if program.name.rpartition("-")[0] == place.name:
                program.kill()
        if place.program is not None:
            place.program.kill()
        self.links.lose(place.name)
        self.begin(place)

    def ask_to_end(self, program: Program, how: signal.Signals = signal.SIGTERM) -> None:
        """Ask for an end; whoever does not end in time is killed, and noted."""
        signal_group(program, signal.SIGCONT)
        with suppress(ProcessLookupError):
            os.kill(program.pid, how)
        self.ending.append((program, time.monotonic() + ENDING))

    def look_after(self) -> None:
        """Start again what has ended by itself, and collect those that were asked to end."""
        for place in self.places:
            if place.program is None or place.program.running:
                continue
            code = _exit_code(place.program)
            if place.ends and code == 0:
                continue
            reason = reason_of(place.program.log.read_text(errors="replace"))
            why = f" ({code}{reason and f': {reason}'})"
            self.notes.append(f"{place.program.name} has ended by itself{why}; the next one begins")
            self.hung.append(place.program.log)
            place.program.kill()
            self.begin(place)
        self.ending = list(self._still_ending())
        self.early = list(self._still_early())

    def _still_ending(self) -> Iterator[tuple[Program, float]]:
        for program, until in self.ending:
            if program.running and time.monotonic() < until:
                yield program, until
                continue
            if program.running:
                self.notes.append(f"{program.name} did not end within {ENDING:.0f} s of being asked to")
                self._ask_where(program)
            program.kill()

    def _ask_where(self, program: Program) -> None:
        """Let a program that hangs say in its log where its threads are, and keep the log."""
        with suppress(ProcessLookupError):
            os.kill(program.pid, signal.SIGABRT)
        wait_until(lambda: not program.running, seconds=5)
        self.hung.append(program.log)

    def _still_early(self) -> Iterator[Program]:
        for program in self.early:
            if READY in program.log.read_bytes():
                self.ask_to_end(program)
            elif program.running:
                yield program
            else:
                program.kill()

    def senders_are_done(self) -> bool:
        """Whether every sender has sent all."""
        return not any(place.alive for place in self.of("sender"))

    def stop(self, *roles: str) -> None:
        """End all programs, or those of these roles."""
        chosen = [place for place in self.places if not roles or place.role in roles]
        programs = [place.program for place in chosen if place.program is not None]
        if not roles:
            programs += [program for program, _ in self.ending] + self.early
        for program in programs:
            signal_group(program, signal.SIGCONT)
        stop_all(programs)
        self.places = [place for place in self.places if place not in chosen]


def worker_words(name: str) -> list[str]:
    """The words of a worker of the run's app."""
    words = ["celery", "-A", "benchmarks.chaos.app", "worker", "-c", str(CHILDREN)]
    return [*words, "-n", f"{name}@chaos", *QUIET]


def signal_group(program: Program, number: signal.Signals) -> None:
    """Send a signal to a program and all its processes, where it still runs."""
    if program.running:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(program.pid, number)


def _exit_code(program: Program) -> int | None:
    """How a program ended, which is not collected yet."""
    ended = os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return None if ended is None else ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
