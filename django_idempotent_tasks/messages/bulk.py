"""Publishes many messages on one connection; on Redis all of them go out in one round trip."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

from celery import Celery
from kombu import Connection, Producer

from .message import Message
from .mould import Cast
from .publication import as_stored
from .wires import Wires


class Push(NamedTuple):
    """Messages for one list on Redis: a command with its number among those of the pipeline."""

    key: Any
    payloads: list[bytes]
    number: range


class Bulk:
    """One producer for all messages. A published message counts as sent once :meth:`flush` says so."""

    def __init__(self, app: Celery, connection: Connection) -> None:
        self._app = app
        self._connection = connection
        self._settings: dict[str, Any] = dict(app.conf.changes or {})
        self._producer: Producer | None = None
        self._send: Callable[..., Any] | None = None
        self._pipeline: Any = None
        self._wires: Wires | None = None
        #: The command that is to follow those in the pipeline, while it takes more messages.
        self._open: Push | None = None
        #: The names published since the last flush, each with its commands in the pipeline.
        self._waiting: list[tuple[object, range]] = []

    @property
    def is_of_today(self) -> bool:
        """Whether the app is configured as it was: what is kept here is of that time."""
        return self._settings == self._app.conf.changes

    def __len__(self) -> int:
        """The number of messages published since the last flush."""
        return len(self._waiting)

    def publish(self, name: object, message: Message | Cast, *, countdown: float = 0) -> None:
        """Publish a message under a name of the caller's. Raises what the transport raises."""
        if self._producer is None:
            self._begin()
        known = self._wires and not countdown and self._wires.of(message)
        if known:
            wire, texts = known
            self._waiting.append((name, self._push(wire.key, wire.payload(texts))))
            return
        self._close()
        first = self._commands
        self._publish(message.whole() if isinstance(message, Cast) else message, countdown)
        self._waiting.append((name, range(first, self._commands)))

    def _publish(self, message: Message, countdown: float = 0) -> None:
        message.publish(self._app, producer=self._producer, send=self._send, countdown=countdown)

    def _push(self, key: Any, payload: bytes) -> range:
        """Put a message into a list on Redis, together with those before it; the number of the command."""
        if self._open is None or self._open.key != key:
            self._close()
            self._open = Push(key, [], range(self._commands, self._commands + 1))
        self._open.payloads.append(payload)
        return self._open.number

    def _close(self) -> None:
        """Put the open command into the pipeline."""
        if self._open is not None:
            self._pipeline.lpush(self._open.key, *self._open.payloads)
            self._open = None

    def flush(self) -> Iterator[tuple[Any, Exception | None]]:
        """Each name since the last flush, with the broker's error for its message.

        Where the broker is away or silent each name has that error: whether its message arrived is unknown.
        """
        waiting, self._waiting = self._waiting, []
        self._close()
        answers: list[Any] = []
        if self._commands:
            try:
                answers = self._pipeline.execute(raise_on_error=False)
            except Exception as error:  # noqa: BLE001  every transport has its own errors
                answers = [error] * (waiting[-1][1].stop if waiting else 0)
        if not any(isinstance(answer, Exception) for answer in answers):
            yield from ((name, None) for name, _ in waiting)
            return
        for name, commands in waiting:
            refused = [answers[number] for number in commands if isinstance(answers[number], Exception)]
            yield name, refused[0] if refused else None

    def send(self, message: Message | Cast, *, countdown: float = 0) -> None:
        """Publish one message, and have it at the broker. Raises what the transport raises."""
        self.publish(None, message, countdown=countdown)
        self._check()

    def send_all(self, messages: Mapping[Any, Message | Cast]) -> None:
        """Publish these messages, and have all of them at the broker. Raises what the transport raises."""
        for name, message in messages.items():
            self.publish(name, message)
        self._check()

    def _check(self) -> None:
        for _, error in self.flush():
            if error is not None:
                connection: Any = self._connection
                with connection._reraise_as_library_errors():  # noqa: SLF001  as Celery does
                    raise error

    def forget(self) -> None:
        """Begin anew after the connection's channel was closed."""
        self._producer = self._pipeline = self._wires = self._open = None
        self._waiting = []

    @property
    def _commands(self) -> int:
        return 0 if self._pipeline is None else len(self._pipeline)

    def _begin(self) -> None:
        producer: Producer = self._app.amqp.Producer(self._connection, auto_declare=False)
        if self._connection.transport.driver_type == "redis":
            channel = self._connection.default_channel
            self._pipeline = pipelined(channel)
            self._wires = Wires(self._app, channel, self._publish)
        self._producer, self._send = producer, as_stored(self._app)


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
