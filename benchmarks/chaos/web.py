"""The web server of a chaos run: ``python -m benchmarks.chaos.web PORT``."""

from __future__ import annotations

import sys
from contextlib import suppress
from wsgiref.simple_server import make_server

from django.core.wsgi import get_wsgi_application

from example_project.web import PooledServer, QuietHandler


def main(port: str) -> None:
    """Serve until the end of the process."""
    server = make_server("127.0.0.1", int(port), get_wsgi_application(), PooledServer, QuietHandler)
    with server, suppress(KeyboardInterrupt):
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
