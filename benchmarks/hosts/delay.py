"""Delays bytes to servers and back: ``python -m benchmarks.hosts.delay SOCKET NAME=PORT=HOST:PORT ...``.

One process a host. It listens on the host's loopback for each server that is named, keeps the order of what
it forwards, and counts round trips: how often a client says something after its server did, or at first.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections import deque
from collections.abc import Mapping
from functools import partial
from pathlib import Path


class Line:
    """The way to one server, for all connections: seconds in each direction, and round trips so far."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.seconds = 0.0
        self.trips = 0


class End(asyncio.Protocol):
    """One end of a connection that is forwarded; what it is to say waits until it is due."""

    def __init__(self, line: Line, peer: End | None = None) -> None:
        self._line = line
        self._peer = peer
        self._is_client = peer is None
        self._transport: asyncio.Transport | None = None
        #: What it is to say and from when on; None is the end of the connection.
        self._late: deque[tuple[float, bytes | None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._has_answered = True
        self._dialling: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"{transport!r} is no stream")
        self._transport = transport
        if self._is_client:
            self._peer = End(self._line, self)
            self._dialling = asyncio.get_running_loop().create_task(self._dial(self._peer))
        self._say_what_is_due()

    async def _dial(self, server: End) -> None:
        """Reach the server, which takes a round trip as well."""
        self._line.trips += 1
        await asyncio.sleep(2 * self._line.seconds)
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: server, self._line.host, self._line.port)
        except OSError:
            self._close()

    def data_received(self, data: bytes) -> None:
        if self._peer is None:
            return
        if self._is_client and self._has_answered:
            self._line.trips += 1
            self._has_answered = False
        elif not self._is_client:
            self._peer._has_answered = True  # noqa: SLF001  the other end of the same connection
        self._peer.say(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  either way it is over
        self._transport = None
        if self._peer is not None:
            self._peer.say(None)

    def say(self, data: bytes | None) -> None:
        """Say this after the way's delay, in the order in which it is given."""
        self._late.append((asyncio.get_running_loop().time() + self._line.seconds, data))
        if self._timer is None:
            self._say_what_is_due()

    def _say_what_is_due(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._late and self._transport is not None and self._late[0][0] <= loop.time():
            _due, data = self._late.popleft()
            if data is None:
                self._close()
            else:
                self._transport.write(data)
        if self._late and self._transport is not None:
            self._timer = loop.call_at(self._late[0][0], self._say_what_is_due)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def serve(path: Path, places: Mapping[str, tuple[int, str, int]]) -> None:
    """Forward for good: for each name from this port of the loopback to this host and port."""
    loop = asyncio.get_running_loop()
    lines = {name: Line(host, port) for name, (_own, host, port) in places.items()}
    for name, line in lines.items():
        await loop.create_server(partial(End, line), "127.0.0.1", places[name][0])

    async def obey(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for name, seconds in json.loads(await reader.readline()).items():
            lines[name].seconds = seconds
        writer.write(json.dumps({name: line.trips for name, line in lines.items()}).encode())
        writer.close()

    await asyncio.start_unix_server(obey, path)
    await asyncio.Event().wait()


def tell(path: Path, delays: Mapping[str, float]) -> dict[str, int]:
    """Set the seconds in each direction by name, as far as they are given; the round trips so far."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(path))
        client.sendall(json.dumps(dict(delays)).encode() + b"\n")
        with client.makefile("rb") as answer:
            return {str(name): int(trips) for name, trips in json.loads(answer.read()).items()}


def _place(word: str) -> tuple[str, tuple[int, str, int]]:
    name, own, target = word.split("=")
    host, _, port = target.rpartition(":")
    return name, (int(own), host, int(port))


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), dict(map(_place, sys.argv[2:]))))
