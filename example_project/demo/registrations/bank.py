"""The provider's other half: tells of debits by webhooks, out of order, some twice, and some never."""

from __future__ import annotations

import json
import random
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any

from example_project.payments.signatures import HEADER, sign

if TYPE_CHECKING:
    from collections.abc import Callable

ACCEPTED = 202
TRIES = 8
TIMEOUT = 15.0
SENDERS = 3
#: Seconds between two looks at the gateway's charges.
PACE = 1.0
#: Every so manieth debit is never told of.
LOST = 25


class Bank:
    """Sends webhooks to a tenant's address, for each charge of ``charges`` that is a registration's debit."""

    def __init__(
        self,
        address: str,
        tenant: tuple[str, str],
        charges: Callable[[], list[dict[str, str]]],
        amount: str,
        rng: random.Random,
    ) -> None:
        self.sent = 0
        self.lost: set[str] = set()
        self.surprises: list[str] = []
        self._address, (self._tenant, self._secret) = address, tenant
        self._charges, self._amount, self._rng = charges, amount, rng
        self._known: set[str] = set()
        self._futures: list[Future[None]] = []
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(SENDERS)
        self._thread = threading.Thread(target=self._run, name="bank", daemon=True)

    def start(self) -> None:
        """Begin to look and to send."""
        self._thread.start()

    def finish(self) -> None:
        """Tell of what is there by now, and wait until all is sent."""
        self._stopped.set()
        self._thread.join()
        self._pool.shutdown()

    @property
    def is_quiet(self) -> bool:
        """Whether all that it knows of is sent."""
        return all(future.done() for future in self._futures)

    def _run(self) -> None:
        while not self._stopped.wait(PACE):
            self._look()
        self._look()

    def _look(self) -> None:
        try:
            charges = self._charges()
        except (OSError, HTTPException):
            return  # the gateway is down, too
        events = [event for charge in charges if self._is_new(charge) for event in self._events(charge)]
        self._rng.shuffle(events)
        self._futures += [self._pool.submit(self._deliver, event) for event in events]

    def _is_new(self, charge: dict[str, str]) -> bool:
        reference = charge["reference"]
        is_new = charge["amount"] == self._amount and "/reg-" in reference and reference not in self._known
        if is_new:
            self._known.add(reference)
        return is_new

    def _events(self, charge: dict[str, str]) -> list[dict[str, Any]]:
        payment = charge["reference"].partition("/")[2]
        if len(self._known) % LOST == 0:
            self.lost.add(payment)
            return []
        completed, pending = (
            self._event(charge, payment, "completed"),
            self._event(charge, payment, "pending"),
        )
        return [
            completed,
            *[completed] * (self._rng.random() < 1 / 3),
            *[pending] * (self._rng.random() < 1 / 2),
        ]

    def _event(self, charge: dict[str, str], payment: str, status: str) -> dict[str, Any]:
        data = {
            "payment_id": payment,
            "order_id": payment,
            "amount": charge["amount"],
            "currency": charge["currency"],
            "status": status,
        }
        name = f"evt_{status}_{payment}"
        return {"id": name, "type": f"payment.{status}", "created": int(time.time()), "data": data}

    def _deliver(self, event: dict[str, Any]) -> None:
        """Send it, again where the answer is "later" or none, as a provider does."""
        status = 0
        for _ in range(TRIES):
            try:
                status = self._post(json.dumps(event).encode())
            except (OSError, HTTPException):
                status = 0
            if status not in {0, 409, 503}:
                break
            time.sleep(0.5)
        self.sent += 1
        if status != ACCEPTED:
            self.surprises.append(f"{status} instead of {ACCEPTED} for {event['id']}")

    def _post(self, body: bytes) -> int:
        connection = HTTPConnection(self._address, timeout=TIMEOUT)
        headers = {"Content-Type": "application/json", HEADER: sign(self._secret, body)}
        try:
            connection.request("POST", f"/webhooks/{self._tenant}/registrations/", body, headers)
            return connection.getresponse().status
        finally:
            connection.close()
