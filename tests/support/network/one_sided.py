"""A proxy whose connections are lost on the client's side alone: the server believes in them as before."""

from __future__ import annotations

import contextlib
import socket

from tests.support.network.cutting import CuttingProxy


class OneSidedProxy(CuttingProxy):
    """What a firewall does that forgets a connection, or a host whose goodbye is lost on the way."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._believing: set[socket.socket] = set()

    def cut_clients(self) -> None:
        """Close every connection towards its client; new ones are made as before, and end as others do."""
        clients, servers = self._sockets[1::2], self._sockets[2::2]  # the first one listens
        self._believing.update(servers)
        for each in clients:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _end(self, sink: socket.socket) -> None:
        if sink not in self._believing:
            super()._end(sink)
