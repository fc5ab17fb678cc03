"""The printer's HTTP interface: POST /badges with an Idempotency-Key, GET /sheets counts what came out."""

from __future__ import annotations

import json
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .store import PrinterStore

MAX_BODY = 16 * 1024
FIELDS = ("badge", "text")


class PrinterServer(ThreadingHTTPServer):
    """Serves one store; each call has a thread."""

    # Closing waits for the calls that are being answered: they need the store.
    daemon_threads = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], store_path: Path) -> None:
        self.store = PrinterStore(store_path)
        super().__init__(address, PrinterHandler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a broken connection: here clients are killed in the middle of their calls."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def server_close(self) -> None:
        """Stop listening and close the store."""
        super().server_close()
        self.store.close()


class PrinterHandler(BaseHTTPRequestHandler):
    """One call."""

    server: PrinterServer
    timeout = 10

    def do_GET(self) -> None:
        """Answer what came out."""
        if self.path == "/sheets":
            self._answer(
                HTTPStatus.OK, {"sheets": self.server.store.sheets(), "calls": self.server.store.calls()}
            )
        else:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "not found"})

    def do_POST(self) -> None:
        """Print one badge."""
        key, job = self.headers.get("Idempotency-Key", ""), self._job()
        if self.path != "/badges":
            self._answer(HTTPStatus.NOT_FOUND, {"error": "not found"})
        elif not key or job is None:
            needs = f"an Idempotency-Key and the texts {', '.join(FIELDS)} are needed"
            self._answer(HTTPStatus.BAD_REQUEST, {"error": needs})
        else:
            sheet = self.server.store.print(key, job["badge"], job["text"])
            self._answer(HTTPStatus.CREATED, {"sheet": sheet})

    def _job(self) -> dict[str, str] | None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY:
            return None
        try:
            job = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            return None
        if not isinstance(job, dict) or not all(isinstance(job.get(name), str) for name in FIELDS):
            return None
        return {name: job[name] for name in FIELDS}

    def _answer(self, status: HTTPStatus, document: dict[str, object]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Write no access log: the counters tell more."""
