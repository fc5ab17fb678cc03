"""Posts the planned webhooks over HTTP, several at a time, and keeps what was accepted."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING

from example_project.gateway.store import DECLINED_AMOUNT, UNREADABLE_AMOUNT
from example_project.payments.signatures import HEADER

from .judging.verdict import Accepted
from .traffic import ACCEPTED, Delivery, Plan

if TYPE_CHECKING:
    from collections.abc import Iterator

TRIES = 5
TIMEOUT = 15.0
SENDERS = 8


@dataclass
class Outcome:
    """The answers so far."""

    statuses: Counter[int] = field(default_factory=Counter)
    accepted: dict[str, Accepted] = field(default_factory=dict)
    refused: int = 0
    surprises: list[str] = field(default_factory=list)


class Sender:
    """Sends a plan in the background, at a steady rate, as a provider does."""

    def __init__(self, address: str, plan: Plan, rate: float) -> None:
        self.outcome = Outcome()
        self.plan = plan
        self._address = address
        self._rate = rate
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sender", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """Send nothing more, and wait for what is being sent."""
        self._stopped.set()
        self._thread.join()

    def reached(self, count: int) -> bool:
        """Whether so many deliveries, or all, have their answer."""
        return self.outcome.statuses.total() >= count or self.finished

    @property
    def finished(self) -> bool:
        """Whether every delivery has its answer."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        with ThreadPoolExecutor(SENDERS) as pool:
            for delivery in self._paced():
                pool.submit(self.deliver, delivery)

    def _paced(self) -> Iterator[Delivery]:
        """Yield pairs, so that a repetition that follows at once races with its original."""
        began = time.monotonic()
        for number, delivery in enumerate(self.plan.deliveries):
            due = began + (number // 2) * 2 / self._rate
            if self._stopped.wait(max(0.0, due - time.monotonic())):
                return
            yield delivery

    def deliver(self, delivery: Delivery) -> None:
        """Send one, and note the answer."""
        status, answer = self._post_until_answered(delivery)
        with self._lock:
            self.outcome.statuses[status] += 1
            if status != delivery.expected:
                self.outcome.surprises.append(f"{status} instead of {delivery.expected}: {answer[:200]!r}")
            elif status == ACCEPTED:
                self._note(delivery)
            else:
                self.outcome.refused += 1

    def _post_until_answered(self, delivery: Delivery) -> tuple[int, bytes]:
        """Send again what was not answered, or answered with "later", as a provider does."""
        status, answer = 0, b""
        for _ in range(TRIES):
            try:
                status, answer = self._post(delivery)
            except (OSError, HTTPException) as error:
                status, answer = 0, repr(error).encode()
            if status not in {0, 503} or self._stopped.wait(0.5):
                break
        return status, answer

    def _post(self, delivery: Delivery) -> tuple[int, bytes]:
        connection = HTTPConnection(self._address, timeout=TIMEOUT)
        headers = {"Content-Type": "application/json", HEADER: delivery.signature}
        try:
            connection.request("POST", f"/webhooks/{delivery.tenant}/", delivery.body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _note(self, delivery: Delivery) -> None:
        event, data = delivery.event, delivery.event["data"]
        self.outcome.accepted[event["id"]] = Accepted(
            event_id=event["id"],
            payment=(delivery.tenant, data["payment_id"]),
            status=data["status"],
            declined=data["status"] == "completed" and data["amount"] == DECLINED_AMOUNT,
            poison=data["amount"] == UNREADABLE_AMOUNT,
        )
