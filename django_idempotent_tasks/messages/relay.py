"""Sends a message right after its commit, on connections that give up within about two seconds."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from celery import Celery
from kombu import Connection
from kombu.exceptions import OperationalError

from .blame import Fault, fault_of
from .bulk import Bulk
from .message import Message
from .mould import Cast

logger = logging.getLogger("django_idempotent_tasks")

#: Seconds after a failure in which messages are left to the sweeper, so that no request waits for a broker.
PAUSE = 5.0
#: Connections that are kept open between messages.
IDLE_LIMIT = 10
#: Seconds: a kept connection that fails sooner was closed, and a new one may work; a later one timed out.
SOON = 0.3

#: Seconds for which many messages are sent, and how many of them one round trip takes.
LONGEST, FLUSH = 2.0, 100

Name = TypeVar("Name")
#: A connection, and what publishes on it.
Line = tuple[Celery, Connection, Bulk]

#: Transports whose options are those of redis-py.
_REDIS = frozenset({"redis", "rediss", "sentinel"})
_AMQP = frozenset({"amqp", "amqps", "pyamqp", "librabbitmq"})


def bounded_connection(app: Celery) -> Connection:
    """A connection that gives up within about two seconds, and on AMQP waits for publisher confirms."""
    options: dict[str, object] = dict(app.conf.broker_transport_options or {})
    transport = app.connection_for_write().transport_cls
    if transport in _REDIS:
        options |= {"socket_connect_timeout": 1, "socket_timeout": 2}
    elif transport in _AMQP:
        options |= {"confirm_publish": True, "read_timeout": 2, "write_timeout": 2}
    return app.connection_for_write(connect_timeout=1, transport_options=options)


class Relay:
    """Sends messages of committed reservations; any thread may use it."""

    def __init__(self) -> None:
        self._closed_until = 0.0
        self._idle: deque[Line] = deque()

    def send(self, app: Celery, message: Message | Cast) -> bool:
        """Send; False leaves the message to the sweeper. Never raises, never waits long."""
        if self._is_closed():
            return False
        try:
            self._attempt(app, message)
        except Exception as error:  # noqa: BLE001  every transport has its own errors
            logger.warning("%s was not sent (%r); the sweeper sends it", message.task, error)
            return False
        return True

    def send_many(self, app: Celery, messages: Iterable[tuple[Name, Message | Cast]]) -> Iterator[Name]:
        """Send many, each under a name; the names of those that the broker has.

        Ends after ``LONGEST`` seconds, or at the first failure: who is not named is left to the sweeper.
        Raises only what ``messages`` raises.
        """
        if self._is_closed():
            return
        until = time.monotonic() + LONGEST
        try:
            line = self._kept_checked(app) or self._new(app)
        except Exception as error:  # noqa: BLE001  every transport has its own errors
            self._failed(app, error)
            return
        has_failed = True
        try:
            has_failed = yield from self._send_bulk(app, line[2], messages, until)
        finally:
            if has_failed:
                _part(line[1], is_answering=not self._is_closed())
            else:
                self._keep(line)

    def send_few(self, app: Celery, messages: Mapping[Name, Message | Cast]) -> set[Name]:
        """Send what was committed together, on a kept connection; the names of those that the broker has.

        Never raises, never waits long: who is not named is left to the sweeper.
        """
        if not messages or self._is_closed():
            return set()
        began = time.monotonic()
        try:
            with self._using(self._kept(app) or self._new(app)) as bulk:
                bulk.send_all(messages)
        except Exception as error:  # noqa: BLE001  every transport has its own errors
            if time.monotonic() - began > SOON:
                self._failed(app, error)
            # Else the connection was closed, or one message was refused: which have arrived is unknown.
            return {name for name, message in messages.items() if self.send(app, message)}
        return set(messages)

    def _send_bulk(
        self, app: Celery, bulk: Bulk, messages: Iterable[tuple[Name, Message | Cast]], until: float
    ) -> Generator[Name, None, bool]:
        """Send until the time is over or something fails; whether it did."""
        has_failed = False
        for name, message in messages:
            try:
                bulk.publish(name, message)
            except Exception as error:  # noqa: BLE001  every transport has its own errors
                self._failed(app, error)
                has_failed = True
                break
            if len(bulk) >= FLUSH:
                has_failed |= yield from self._flush(app, bulk)
            now = time.monotonic()
            if now < self._closed_until or now >= until:
                break
        return (yield from self._flush(app, bulk)) or has_failed

    def _flush(self, app: Celery, bulk: Bulk) -> Generator[Any, None, bool]:
        has_failed = False
        for name, error in bulk.flush():
            if error is None:
                yield name
            elif not has_failed:
                has_failed = True
                self._failed(app, error)
        return has_failed

    def _failed(self, app: Celery, error: Exception) -> None:
        logger.warning("Not all messages were sent (%r); the sweeper sends the others", error)
        if fault_of(error, app.connection_for_write()) is Fault.BROKER:
            self._closed_until = time.monotonic() + PAUSE

    def post(self, app: Celery, message: Message) -> None:
        """Send a message that no sweeper would send. Never waits long; raises what the transport raises.

        Raises kombu's OperationalError at once when the broker has just been found away.
        """
        if self._is_closed():
            msg = f"The broker did not answer within the last {PAUSE:.0f} s; {message.task} was not sent."
            raise OperationalError(msg)
        self._attempt(app, message)

    def replace(self, app: Celery, message: Message | Cast, *, countdown: float = 0) -> None:
        """Send a message in the place of a delivery: on AMQP the broker has it when this returns.

        Raises what the transport raises. Tries also right after a failure, since a worker can wait.
        """
        if not self._send_on_kept(app, message, countdown):
            with self._using(self._new(app)) as bulk:
                bulk.send(message, countdown=countdown)

    def _is_closed(self) -> bool:
        return time.monotonic() < self._closed_until

    def _attempt(self, app: Celery, message: Message | Cast) -> None:
        try:
            self.replace(app, message)
        except Exception as error:
            if fault_of(error, app.connection_for_write()) is Fault.BROKER:  # else other messages can go
                self._closed_until = time.monotonic() + PAUSE
            raise

    def _send_on_kept(self, app: Celery, message: Message | Cast, countdown: float) -> bool:
        """Send on a kept connection; False when there is none, or the broker has closed it.

        Whether a failed message has arrived is unknown: it may arrive twice, and is run once.
        """
        line = self._kept(app)
        if line is None:
            return False
        began = time.monotonic()
        try:
            with self._using(line) as bulk:
                bulk.send(message, countdown=countdown)
        except OperationalError:
            if time.monotonic() - began > SOON:
                raise
            return False
        return True

    def _new(self, app: Celery) -> Line:
        connection = bounded_connection(app)
        try:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=1)
        except BaseException:
            collapse(connection)
            raise
        return app, connection, Bulk(app, connection)

    @contextmanager
    def _using(self, line: Line) -> Iterator[Bulk]:
        """Keep the connection afterwards; after a failure drop it, and the other kept ones too."""
        try:
            yield line[2]
        except BaseException:
            self._drop(line[1])
            raise
        self._keep(line)

    def _keep(self, line: Line) -> None:
        if len(self._idle) < IDLE_LIMIT:
            self._idle.append(line)
        else:
            line[1].release()

    def _kept(self, app: Celery) -> Line | None:
        with suppress(IndexError):
            line = self._idle.pop()
            if line[0] is app and line[1].connected and line[2].is_of_today:
                return line
            collapse(line[1])
        return None

    def _kept_checked(self, app: Celery) -> Line | None:
        """A kept connection on which the first of many messages does not fail because the broker closed it.

        Only redis-py looks at a socket before it uses it, and connects anew.
        """
        line = self._kept(app)
        if line is None or line[1].transport.driver_type == "redis":
            return line
        self._keep(line)
        return None

    def _drop(self, connection: Connection) -> None:
        while self._idle:
            with suppress(IndexError):
                collapse(self._idle.pop()[1])
        collapse(connection)

    def forget(self) -> None:
        """In a forked child, neither use nor close the parent's connections."""
        _of_the_parent.append(self._idle)
        self._idle = deque()
        self._closed_until = 0.0


def collapse(connection: Connection) -> None:
    """Close a connection without waiting for the broker, which may not answer."""
    with suppress(Exception):
        if connection.transport.driver_type == "amqp":
            connection.collect()
        else:  # sends nothing, and collect() would change the time-outs of other threads' new sockets
            connection.release()


def _part(connection: Connection, *, is_answering: bool) -> None:
    """Close with a word to a broker that answers: RabbitMQ notes each client that leaves without."""
    if is_answering:
        with suppress(Exception):
            connection.release()
    else:
        collapse(connection)


_of_the_parent: list[object] = []
relay = Relay()
os.register_at_fork(after_in_child=relay.forget)
