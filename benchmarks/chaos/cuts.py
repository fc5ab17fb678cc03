"""Strikes at the links of workers' hosts: cut off, cut off for good, and behind a narrow link."""

from __future__ import annotations

import time
from collections.abc import Mapping
from uuid import UUID

from django.db import Error as DatabaseError
from django.db import connection

from benchmarks.chaos.fleet import Fleet, Place
from benchmarks.chaos.later import Later
from benchmarks.chaos.plan import Fault, Strike
from benchmarks.chaos.victims import held_by, not_taken, pick

#: Seconds that a strike waits for a host that is as it should be, and for others to take its work over.
PATIENCE, TAKEN = 20.0, 90.0
#: Tries to cut a host off while it holds a key.
CHANCES = 20
#: What a narrow link lets through: a guarded task then takes about a second.
RATE = "64kbit"
#: Ends what a server keeps of hosts that are lost and does nothing: its own keepalive would, two hours later.
#: What has a transaction open is left to the server, and to what the package has set there.
END_IDLE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE state = 'idle' AND client_addr = ANY(CAST(%s AS inet[]))"
)


class Cuts:
    """Strikes at hosts; ``told`` says of each that was cut off what became of the keys that it held."""

    def __init__(self, fleet: Fleet, later: Later) -> None:
        self._fleet = fleet
        self._links = fleet.links
        self._later = later
        self.told: list[str] = []

    def strike(self, fault: Fault) -> str:
        """Do it; what was done, nothing where there was no host to strike at."""
        place = self._chosen(fault)
        if place is None:
            return ""
        if fault.strike is Strike.HOST_NARROWED:
            return self._narrow(place, fault.seconds)
        held = self._cut(place)
        if fault.strike is Strike.HOST_CUT:
            return self._cut_for_a_while(place, held, fault.seconds)
        return self._cut_for_good(place, held, fault.seconds)

    def _chosen(self, fault: Fault) -> Place | None:
        """A worker that takes messages, whose link is as it should be; waited for where there is none."""
        end = time.monotonic() + PATIENCE
        while not (ready := self._ready()) and self._links.places() and time.monotonic() < end:
            self._fleet.look_after()
            self._later.rest(0.1)
        return pick(fault, ready)

    def _ready(self) -> list[Place]:
        linked = self._links.places() - self._links.disturbed
        return [place for place in self._fleet.ready_workers() if place.name in linked]

    def _narrow(self, place: Place, seconds: float) -> str:
        self._links.narrow(place.name, RATE)
        self._later.add(seconds, lambda: self._links.widen(place.name))
        return f"let the link of {place.name} take {RATE} for {seconds} s"

    def _cut(self, place: Place) -> dict[UUID, int]:
        """Cut a host off, if possible while it holds keys; which those are."""
        for chance in range(CHANCES):
            self._links.cut(place.name)
            held = held_by(place.children())
            if held or chance == CHANCES - 1:
                break
            self._links.join(place.name)
            self._later.rest(0.05)
        return held

    def _cut_for_a_while(self, place: Place, held: Mapping[UUID, int], seconds: float) -> str:
        def join() -> None:
            left = not_taken(held)
            self._links.join(place.name)
            self.told.append(f"{place.name} was back after {seconds} s; {_became(held, left)}")

        self._later.add(seconds, join)
        return f"cut {place.name} off for {seconds} s, with {len(held)} keys"

    def _cut_for_good(self, place: Place, held: Mapping[UUID, int], least: float) -> str:
        """Let a host go on alone until others have its keys; then its end, and another host's beginning."""
        began = time.monotonic()

        def lose() -> None:
            left, seconds = not_taken(held), time.monotonic() - began
            if left and seconds < TAKEN:
                self._later.add(0.1, lose)
                return
            self._fleet.lose(place)
            self._end_idle()
            self.told.append(f"{place.name} was lost and killed after {seconds:.1f} s; {_became(held, left)}")

        self._later.add(least, lose)
        return f"cut {place.name} off for good, with {len(held)} keys"

    def _end_idle(self) -> None:
        if connection.vendor != "postgresql":
            return
        try:
            with connection.cursor() as cursor:
                cursor.execute(END_IDLE, [self._links.lost])
        except DatabaseError:  # it is away, which may be what this moment waits for
            connection.close()
            self._later.add(1.0, self._end_idle)


def _became(held: Mapping[UUID, int], left: int) -> str:
    """What became of the keys that a host held under a lease, before it was back or killed."""
    if not held:
        return "it held no key under a lease"
    return f"of the {len(held)} keys that it held {len(held) - left} had ended or were taken over"
