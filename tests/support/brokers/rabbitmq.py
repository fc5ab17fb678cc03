"""RabbitMQ as a test sees it: one queue of its own on a server that others use as well."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from amqp.exceptions import NotFound
from celery.result import AsyncResult
from kombu import Connection

from tests.sample.celery import app
from tests.support.brokers.broker import Broker
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

#: The class and the method of basic.publish in an AMQP frame.
PUBLISH = b"\x00\x3c\x00\x28"


def rabbitmq_url() -> str:
    """Where RabbitMQ is; skips the test, aloud, where the environment does not say."""
    url = os.environ.get("RABBITMQ_URL", "")
    if not url:
        pytest.skip("RABBITMQ_URL is not set: nothing shown on RabbitMQ")
    return url


@dataclass
class RabbitBroker(Broker):
    """A classic queue; ``prefix`` is its name."""

    def waiting(self, queue: str = "") -> int:
        """Count the messages that no worker has taken."""
        with Connection(self.url) as connection, _channel(connection) as channel:
            try:
                return int(channel.queue_declare(queue or self.prefix, passive=True).message_count)
            except NotFound:
                return 0

    def unacknowledged(self) -> int:
        """RabbitMQ tells it to its administrators only: look at ``waiting()`` once the workers have ended."""
        return 0

    def wait_until_empty(self, *, within: float = 30.0) -> None:
        """Wait until every message was taken."""
        eventually(lambda: not self.waiting(), "every message is taken", within=within, every=0.2)

    def clear(self) -> None:
        """Delete the queue with what is in it."""
        with Connection(self.url) as connection, _channel(connection) as channel:
            channel.queue_delete(self.prefix)
            channel.exchange_delete(self.prefix)

    def close(self) -> None:
        """Nothing is kept open."""


def _channel(connection: Connection) -> Any:
    """An AMQP channel; kombu's stubs know only what all transports have."""
    return connection.channel()


@dataclass
class RabbitSite(Site):
    """A site whose workers consume that queue; ``celery`` are further settings of theirs."""

    celery: Mapping[str, Any] = field(default_factory=dict)

    @property
    def queue_settings(self) -> dict[str, Any]:
        """Celery's settings that say what the queue is."""
        return {"task_default_queue": self.broker.prefix, **self.celery}

    def worker(self, name: str, *arguments: str, **environment: str) -> Worker:
        """Make a worker, not yet started; the broker's URL may be replaced by that of a proxy."""
        queue = json.dumps(self.queue_settings)
        variables = {"PROJ_CELERY": queue, "PROJ_RESULT_BACKEND": "disabled://", **environment}
        return super().worker(name, *arguments, **variables)

    def _send(self, task: Any, args: Any, kwargs: Any, options: Mapping[str, Any]) -> AsyncResult[Any]:
        with app.connection_for_write(self.broker.url) as connection:
            result: AsyncResult[Any] = task.apply_async(
                args, kwargs, connection=connection, **{"queue": self.broker.prefix, **options}
            )
        return result


def through(port: int, url: str) -> str:
    """The URL by way of a proxy on this machine."""
    place = urlsplit(url)
    account, at, _ = place.netloc.rpartition("@")
    return place._replace(netloc=f"{account}{at}127.0.0.1:{port}").geturl()
