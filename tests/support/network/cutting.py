"""A proxy that also closes what it forwards, as a broker does that restarts or loses its network."""

from __future__ import annotations

import contextlib
import socket

from tests.support.network.proxy import Proxy


class CuttingProxy(Proxy):
    """Forwards connections until they are cut."""

    def cut(self) -> None:
        """Close every connection in both directions; new ones are made as before."""
        for each in self._sockets[1:]:  # the first one listens
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def go_down(self) -> None:
        """Cut, and answer nobody until it is thawed."""
        self.freeze()
        self.cut()
