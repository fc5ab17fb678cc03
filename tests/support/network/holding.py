"""A line on which a COMMIT is held until its sender has gone on, as by a proxy whose own line is down."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
from django.db import connections

from tests.support.deliveries import need_postgresql
from tests.support.network.proxy import Proxy


class Holding(Proxy):
    """Holds the first message with a COMMIT of its own accord, and cuts who has sent it off."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.is_armed = False
        self._held: tuple[socket.socket, bytes] | None = None

    def _forward(self, source: socket.socket, sink: socket.socket, from_client: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if self.is_armed and from_client and b"COMMIT" in data:
                    self.is_armed, self._held = False, (sink, data)
                    source.shutdown(socket.SHUT_RDWR)
                    return
                sink.sendall(data)
        self._end(sink)

    def deliver(self) -> None:
        """Let the server have what was held, and wait until it has ended the transaction."""
        assert self._held is not None
        sink, data = self._held
        sink.sendall(data)
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT pg_sleep(0.3)")


@pytest.fixture
def line(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Holding]:  # noqa: ARG001
    """What stands between this process and its database."""
    need_postgresql()
    connection = connections["default"]
    with Holding(int(connection.settings_dict["PORT"])) as line:
        connection.close()
        monkeypatch.setitem(connection.settings_dict, "HOST", "127.0.0.1")
        monkeypatch.setitem(connection.settings_dict, "PORT", str(line.port))
        yield line
        connection.close()
