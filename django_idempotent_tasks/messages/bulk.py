"""Publishes many messages on one connection; on Redis all of them go out in one round trip."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

from celery import Celery
from kombu import Connection, Producer

from .message import Message
from .publication import as_stored


class Bulk:
    """One producer for all messages. A published message counts as sent once :meth:`flush` says so."""

    def __init__(self, app: Celery, connection: Connection) -> None:
        self._app = app
        self._connection = connection
        self._producer: Producer | None = None
        self._send: Callable[..., Any] | None = None
        self._pipeline: Any = None
        #: The names published since the last flush, each with its commands in the pipeline.
        self._waiting: list[tuple[object, range]] = []

    def __len__(self) -> int:
        """The number of messages published since the last flush."""
        return len(self._waiting)

    def publish(self, name: object, message: Message) -> None:
        """Publish a message under a name of the caller's. Raises what the transport raises."""
        producer = self._producer or self._begin()
        first = self._commands
        message.publish(self._app, producer=producer, send=self._send)
        self._waiting.append((name, range(first, self._commands)))

    def flush(self) -> Iterator[tuple[Any, Exception | None]]:
        """Each name since the last flush, with the broker's error for its message.

        Where the broker is away or silent each name has that error: whether its message arrived is unknown.
        """
        waiting, self._waiting = self._waiting, []
        answers: list[Any] = []
        if self._commands:
            try:
                answers = self._pipeline.execute(raise_on_error=False)
            except Exception as error:  # noqa: BLE001  every transport has its own errors
                answers = [error] * (waiting[-1][1].stop if waiting else 0)
        for name, commands in waiting:
            refused = [answers[number] for number in commands if isinstance(answers[number], Exception)]
            yield name, refused[0] if refused else None

    def forget(self) -> None:
        """Begin anew after the connection's channel was closed."""
        self._producer = self._pipeline = None
        self._waiting = []

    @property
    def _commands(self) -> int:
        return 0 if self._pipeline is None else len(self._pipeline)

    def _begin(self) -> Producer:
        producer: Producer = self._app.amqp.Producer(self._connection, auto_declare=False)
        if self._connection.transport.driver_type == "redis":
            self._pipeline = pipelined(self._connection.default_channel)
        self._producer, self._send = producer, as_stored(self._app)
        return producer


def pipelined(channel: Any) -> Any:
    """Let kombu's channel for Redis write messages into a pipeline, and return the pipeline.

    Only the commands that put one message into one queue: kombu needs the answers of all others at once.
    """
    put, pipeline = channel._put, channel.client.pipeline(transaction=False)  # noqa: SLF001  no public way

    def put_later(queue: str, message: Any, **options: Any) -> None:
        channel.conn_or_acquire = lambda client=None: nullcontext(client or pipeline)
        try:
            put(queue, message, **options)
        finally:
            del channel.conn_or_acquire

    channel._put = put_later  # noqa: SLF001  as above
    return pipeline
