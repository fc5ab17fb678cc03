"""Starts the printer: ``python -m example_project.printer --port 8901 --store printer.sqlite3``."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from pathlib import Path

from .server import PrinterServer


def main() -> None:
    """Serve until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m example_project.printer")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--store", type=Path, required=True, help="the SQLite file; kept between starts")
    options = parser.parse_args()
    # SystemExit leaves serve_forever like Ctrl-C does, so the store is closed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server = PrinterServer((options.host, options.port), options.store)
    with server, contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()


if __name__ == "__main__":
    main()
