"""The hosts of a chaos run's workers: each has a network of its own, with one link to the servers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Self

from benchmarks.hosts.network import CENTRE, Host, LeftOut, isolate
from benchmarks.hosts.servers import LOOPBACK


def leave() -> str:
    """Move this process into a network of its own; why it may not, where that is so."""
    try:
        isolate()
    except LeftOut as error:
        return str(error)
    return ""


class Links:
    """By place, the host on which its programs run; also a context manager, after which none is left."""

    def __init__(self, why: str = "nobody has made any", servers: Mapping[str, str] | None = None) -> None:
        #: Why there are no hosts; empty where there are.
        self.why = why
        #: Why the link of a host cannot be narrowed; empty where it can.
        self.stiff = why
        #: The places whose link is not as it should be now.
        self.disturbed: set[str] = set()
        #: The addresses of hosts that are lost for good.
        self.lost: list[str] = []
        self._servers = servers or {}
        self._hosts: dict[str, Host] = {}
        self._numbers = itertools.count(1)

    def make(self, places: Sequence[str]) -> None:
        """Make a host for each place, or for none, where that is not allowed."""
        if not (self.why or places):
            self.why = self.stiff = "the only worker lives with the servers"
            return
        try:
            for place in () if self.why else places:
                self._make(place)
        except LeftOut as error:
            self.why = self.stiff = str(error)
            self.__exit__()
        else:
            self.stiff = self.why or self._stiff(places[0])

    def _stiff(self, place: str) -> str:
        try:
            self.narrow(place, "1mbit")
            self.widen(place)
        except LeftOut as error:
            return str(error)
        return ""

    def places(self) -> set[str]:
        """The places that have a host of their own."""
        return set(self._hosts)

    def words(self, place: str, words: Sequence[str]) -> Sequence[str]:
        """The words of a program of this place."""
        host = self._hosts.get(place)
        return host.words(*words) if host else words

    def environment(self, place: str) -> dict[str, str]:
        """The variables by which it finds the servers."""
        if place not in self._hosts:
            return {}
        return {name: url.replace(LOOPBACK, CENTRE) for name, url in self._servers.items()}

    def cut(self, place: str) -> None:
        """Drop every packet; nobody closes a connection."""
        self._hosts[place].cut()
        self.disturbed.add(place)

    def join(self, place: str) -> None:
        """Let packets through again."""
        self._hosts[place].join()
        self.disturbed.discard(place)

    def narrow(self, place: str, rate: str) -> None:
        """Let so much through only."""
        self._hosts[place].narrow(rate)
        self.disturbed.add(place)

    def widen(self, place: str) -> None:
        """Let through as much as comes."""
        self._hosts[place].widen()
        self.disturbed.discard(place)

    def lose(self, place: str) -> None:
        """Let a host be gone with its address, and another one be there in its place."""
        gone = self._hosts.pop(place)
        gone.__exit__()
        self.lost.append(gone.address)
        self._make(place)
        self.disturbed.discard(place)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        while self._hosts:
            self._hosts.popitem()[1].__exit__()

    def _make(self, place: str) -> None:
        self._hosts[place] = Host(next(self._numbers)).__enter__()
