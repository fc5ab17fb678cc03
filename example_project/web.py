"""A small WSGI server with a pool of threads: ``python -m example_project.web --port 8000``."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

if TYPE_CHECKING:
    from socket import socket


class PooledServer(ThreadingMixIn, WSGIServer):
    """Answers in a fixed number of threads, so that each keeps its database connection between requests."""

    request_queue_size = 128
    threads = 8

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._pool = ThreadPoolExecutor(self.threads)
        super().__init__(*args, **kwargs)

    def process_request(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        """Hand the request to a thread of the pool."""
        self._pool.submit(self.process_request_thread, request, client_address)

    def server_close(self) -> None:
        """Stop listening and wait for the requests that are being answered."""
        super().server_close()
        self._pool.shutdown()


class QuietHandler(WSGIRequestHandler):
    """Gives up on a silent client, and writes no access log."""

    timeout = 10

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Write no access log."""


def main() -> None:
    """Serve until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m example_project.web")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    from example_project.wsgi import application  # noqa: PLC0415  (settings are read only when it serves)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server = make_server(options.host, options.port, application, PooledServer, QuietHandler)
    with server, contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()


if __name__ == "__main__":
    main()
