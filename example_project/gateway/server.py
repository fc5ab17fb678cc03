"""The gateway's HTTP interface: POST /charges with an Idempotency-Key, GET /charges, /calls and /stats.

POST /recover ends the outage of one test amount.
"""

from __future__ import annotations

import json
import random
import sys
import time
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .store import DEBIT, Answer, GatewayStore

MAX_BODY = 16 * 1024
FIELDS = ("reference", "amount", "currency")
METHODS = ("card", DEBIT)
NOT_FOUND = Answer(HTTPStatus.NOT_FOUND, {"error": "not found"})


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How many seconds a charge takes, and which share of the calls is answered with 503."""

    latency: tuple[float, float] = (0.2, 0.6)
    unavailable: float = 0.0


class GatewayServer(ThreadingHTTPServer):
    """Serves one store; each call has a thread."""

    # Closing waits for the calls that are being answered: they need the store.
    daemon_threads = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], store_path: Path, behaviour: Behaviour) -> None:
        self.store = GatewayStore(store_path)
        self.behaviour = behaviour
        super().__init__(address, GatewayHandler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a broken connection: here clients are killed in the middle of their calls."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def server_close(self) -> None:
        """Stop listening and close the store."""
        super().server_close()
        self.store.close()


class GatewayHandler(BaseHTTPRequestHandler):
    """One call."""

    server: GatewayServer
    timeout = 10

    def do_GET(self) -> None:
        """Answer the counters, the charges, or the calls by reference."""
        if self.path == "/stats":
            self._answer(Answer(HTTPStatus.OK, dict(self.server.store.stats())))
        elif self.path == "/charges":
            self._answer(Answer(HTTPStatus.OK, {"charges": self.server.store.charges()}))
        elif self.path == "/calls":
            self._answer(Answer(HTTPStatus.OK, {"calls": self.server.store.calls()}))
        else:
            self._answer(NOT_FOUND)

    def do_POST(self) -> None:
        """Charge. The money moves in the middle of the latency: a broken call may have charged or not."""
        key, order = self.headers.get("Idempotency-Key", ""), self._order()
        if self.path == "/recover":
            self.server.store.recover()
            self._answer(Answer(HTTPStatus.OK, {}))
        elif self.path != "/charges":
            self._answer(NOT_FOUND)
        elif not key or order is None:
            needs = f"an Idempotency-Key and the texts {', '.join(FIELDS)} are needed"
            self._answer(Answer(HTTPStatus.BAD_REQUEST, {"error": needs}))
        else:
            self._charge(key, order)

    def _charge(self, key: str, order: dict[str, str]) -> None:
        behaviour = self.server.behaviour
        half = random.uniform(*behaviour.latency) / 2
        self.server.store.count_call(key, order["reference"])
        time.sleep(half)
        if self.server.store.is_down(order["amount"]):
            self._answer(Answer(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "the bank is down"}, retry_after=1))
            return
        if random.random() < behaviour.unavailable:
            self._answer(Answer(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "try again"}))
            return
        answer = self.server.store.charge(key, order)
        time.sleep(half)
        self._answer(answer)

    def _order(self) -> dict[str, str] | None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY:
            return None
        try:
            order = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            return None
        if not isinstance(order, dict) or not all(isinstance(order.get(name), str) for name in FIELDS):
            return None
        found = {name: order[name] for name in FIELDS}
        if "method" not in order:
            return found
        return {**found, "method": order["method"]} if order["method"] in METHODS else None

    def _answer(self, answer: Answer) -> None:
        body = json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if answer.replayed:
            self.send_header("Idempotent-Replayed", "true")
        if answer.retry_after is not None:
            self.send_header("Retry-After", str(answer.retry_after))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Write no access log: the counters tell more."""
