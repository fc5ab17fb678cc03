"""The broker as a test sees it: its queue, what is unacknowledged, and messages put there byte by byte."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import cached_property

from redis import Redis

from tests.support.waiting import eventually

QUEUE = "celery"
#: Seconds in which a worker notes that it has taken a message.
READING = 0.05


@dataclass
class Broker:
    """One Redis or Valkey, of which only the keys under ``prefix`` are ours."""

    url: str
    prefix: str
    #: A queue without a consumer, from which a message can be taken as it was sent.
    parked: str = "parked"

    @cached_property
    def client(self) -> Redis:
        """The connection."""
        return Redis.from_url(self.url, socket_timeout=5)

    def close(self) -> None:
        """Give the connection up; the next use opens one."""
        if "client" in vars(self):
            self.client.close()
            del self.client

    def waiting(self, queue: str = QUEUE) -> int:
        """Count the messages that no worker has taken."""
        return int(self.client.llen(self.prefix + queue))

    def unacknowledged(self) -> int:
        """Count the messages that a worker has taken and not acknowledged."""
        return int(self.client.hlen(self.prefix + "unacked"))

    def is_empty(self) -> bool:
        """Whether every message was taken and acknowledged."""
        return self.waiting() == 0 and self.unacknowledged() == 0

    def wait_until_empty(self, *, within: float = 30.0) -> None:
        """Wait until every message was taken and acknowledged.

        A message is in neither place for a moment, while a worker reads it: one look may see nothing.
        """

        def stays_empty() -> bool:
            if self.is_empty():
                time.sleep(READING)
                return self.is_empty()
            return False

        eventually(stays_empty, "every message is acknowledged", within=within)

    def take_parked(self) -> bytes:
        """Take the message that waits in the queue without a consumer."""
        raw: bytes = self.client.rpop(self.prefix + self.parked)  # type: ignore[assignment]
        return raw

    def deliver(
        self, raw: bytes, *, redelivered: bool | None = None, times: int = 1, queue: str = QUEUE
    ) -> None:
        """Put a raw message on the workers' queue, with or without the mark of a redelivery."""
        message = json.loads(raw)
        marks = (message["headers"], message["properties"]["delivery_info"])
        for place in marks:
            place.pop("redelivered", None)
            if redelivered is not None:
                place["redelivered"] = redelivered
        message["properties"]["delivery_info"]["routing_key"] = queue
        self.client.lpush(self.prefix + queue, *[json.dumps(message)] * times)

    def clear(self) -> None:
        """Throw every message away."""
        names = (QUEUE, self.parked, "unacked", "unacked_index", "unacked_mutex")
        self.client.delete(*(self.prefix + name for name in names))
