"""A proxy whose server answers late, and a port at which nobody answers at all."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from types import TracebackType

from tests.support.network.cutting import CuttingProxy

#: Seconds: longer than anybody waits.
FOR_GOOD = 600.0


class LateProxy(CuttingProxy):
    """Forwards what clients say at once, and holds the server's answers back where it is told so."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._at_once = threading.Event()
        self._cue = b""
        #: Seconds by which each answer comes late.
        self.delay = 0.0
        #: Answers that are held back now.
        self.held = 0

    def hold_answers_to(self, words: bytes) -> None:
        """Forward these words of a client, and no answer from then on."""
        self._cue = words

    def answer(self) -> None:
        """Bring the answers at once again, first those that are held."""
        self._cue, self.delay = b"", 0.0
        self._at_once.set()
        self._at_once = threading.Event()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.answer()
        super().__exit__(kind, error, trace)

    def _forward(self, source: socket.socket, sink: socket.socket, from_client: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if from_client:
                    self._hear(data)
                elif self.delay:
                    self.held += 1
                    self._at_once.wait(self.delay)
                    self.held -= 1
                self._flowing.wait()
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def _hear(self, data: bytes) -> None:
        super()._hear(data)
        if self._cue and self._cue in data:
            self.delay = FOR_GOOD


@contextlib.contextmanager
def black_hole() -> Iterator[int]:
    """A port that neither accepts nor refuses, as behind a firewall that drops packets."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        for _ in range(3):  # Linux lets in one more than it was told; whoever comes after gets no answer
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(address)
        yield address[1]
