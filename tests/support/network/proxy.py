"""A TCP proxy that can stop forwarding without closing anything, as a dead firewall or a frozen host does."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class Proxy:
    """Forwards connections to a server on this machine until it is frozen."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._flowing = threading.Event()
        self._flowing.set()
        self._closed = False
        self._trap = b""
        #: How often a client may send the trap's words before it closes.
        self._allowed = 0
        self._sockets: list[socket.socket] = [self._listener]
        self._threads: list[threading.Thread] = []
        #: Connections that were made while frozen, and whose client waits.
        self.stalled = 0

    @property
    def port(self) -> int:
        """Where clients connect."""
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def is_frozen(self) -> bool:
        """Whether nothing is forwarded."""
        return not self._flowing.is_set()

    def freeze(self) -> None:
        """Stop forwarding, in both directions; connections are still accepted."""
        self._flowing.clear()

    def freeze_at(self, words: bytes, *, after: int = 0) -> None:
        """Freeze as soon as a client sends these words, once they were forwarded ``after`` times."""
        self._trap, self._allowed = words, after

    def thaw(self) -> None:
        """Forward again, first what was held back."""
        self._trap = b""
        self._flowing.set()

    def __enter__(self) -> Self:
        self._run(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Cut every connection, and refuse new ones for good. Does no harm twice."""
        self._closed = True
        self._flowing.set()
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(5)

    def _run(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while not self._closed:
                client, _ = self._listener.accept()
                self.stalled += self.is_frozen
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                self._run(self._forward, client, server, True)
                self._run(self._forward, server, client, False)

    def _forward(self, source: socket.socket, sink: socket.socket, from_client: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if from_client:
                    self._hear(data)
                self._flowing.wait()
                sink.sendall(data)
        self._end(sink)

    def _hear(self, data: bytes) -> None:
        """Freeze before these words of a client if they spring the trap."""
        if self._trap and (heard := data.count(self._trap)):
            self._allowed -= heard
            if self._allowed < 0:
                self.freeze()

    def _end(self, sink: socket.socket) -> None:
        """Tell one side that the other has ended."""
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
