"""Starts the gateway: ``python -m example_project.gateway --port 8900 --store gateway.sqlite3``."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from pathlib import Path

from .server import Behaviour, GatewayServer


def main() -> None:
    """Serve until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m example_project.gateway")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--store", type=Path, required=True, help="the SQLite file; kept between starts")
    parser.add_argument("--latency", type=float, nargs=2, default=(0.2, 0.6), metavar=("LEAST", "MOST"))
    parser.add_argument("--unavailable", type=float, default=0.0, help="share of calls answered with 503")
    options = parser.parse_args()
    # SystemExit leaves serve_forever like Ctrl-C does, so the store is closed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    behaviour = Behaviour(tuple(options.latency), options.unavailable)
    server = GatewayServer((options.host, options.port), options.store, behaviour)
    with server, contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()


if __name__ == "__main__":
    main()
