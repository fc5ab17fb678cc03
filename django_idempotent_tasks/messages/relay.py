"""Sends a message right after its commit, on connections that give up within about two seconds."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from celery import Celery
from kombu import Connection
from kombu.exceptions import OperationalError

from .blame import Fault, fault_of
from .message import Message

logger = logging.getLogger("django_idempotent_tasks")

#: Seconds after a failure in which messages are left to the sweeper, so that no request waits for a broker.
PAUSE = 5.0
#: Connections that are kept open between messages.
IDLE_LIMIT = 10
#: Seconds: a kept connection that fails sooner was closed, and a new one may work; a later one timed out.
SOON = 0.3

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
        self._idle: deque[tuple[Celery, Connection]] = deque()

    def send(self, app: Celery, message: Message) -> bool:
        """Send; False leaves the message to the sweeper. Never raises, never waits long."""
        if self._is_closed():
            return False
        try:
            self._attempt(app, message)
        except Exception as error:  # noqa: BLE001  every transport has its own errors
            logger.warning("%s was not sent (%r); the sweeper sends it", message.task, error)
            return False
        return True

    def post(self, app: Celery, message: Message) -> None:
        """Send a message that no sweeper would send. Never waits long; raises what the transport raises.

        Raises kombu's OperationalError at once when the broker has just been found away.
        """
        if self._is_closed():
            msg = f"The broker did not answer within the last {PAUSE:.0f} s; {message.task} was not sent."
            raise OperationalError(msg)
        self._attempt(app, message)

    def replace(self, app: Celery, message: Message, *, countdown: float = 0) -> None:
        """Send a message in the place of a delivery: on AMQP the broker has it when this returns.

        Raises what the transport raises. Tries also right after a failure, since a worker can wait.
        """
        if not self._send_on_kept(app, message, countdown):
            with self._using(self._new(app), app) as connection:
                message.publish(app, connection=connection, countdown=countdown)

    def _is_closed(self) -> bool:
        return time.monotonic() < self._closed_until

    def _attempt(self, app: Celery, message: Message) -> None:
        try:
            self.replace(app, message)
        except Exception as error:
            if fault_of(error, app.connection_for_write()) is Fault.BROKER:  # else other messages can go
                self._closed_until = time.monotonic() + PAUSE
            raise

    def _send_on_kept(self, app: Celery, message: Message, countdown: float) -> bool:
        """Send on a kept connection; False when there is none, or the broker has closed it.

        Whether a failed message has arrived is unknown: it may arrive twice, and is run once.
        """
        connection = self._kept(app)
        if connection is None:
            return False
        began = time.monotonic()
        try:
            with self._using(connection, app):
                message.publish(app, connection=connection, countdown=countdown)
        except OperationalError:
            if time.monotonic() - began > SOON:
                raise
            return False
        return True

    def _new(self, app: Celery) -> Connection:
        connection = bounded_connection(app)
        try:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=1)
        except BaseException:
            collapse(connection)
            raise
        return connection

    @contextmanager
    def _using(self, connection: Connection, app: Celery) -> Iterator[Connection]:
        """Keep the connection afterwards; after a failure drop it, and the other kept ones too."""
        try:
            yield connection
        except BaseException:
            self._drop(connection)
            raise
        if len(self._idle) < IDLE_LIMIT:
            self._idle.append((app, connection))
        else:
            connection.release()

    def _kept(self, app: Celery) -> Connection | None:
        with suppress(IndexError):
            owner, connection = self._idle.pop()
            if owner is app and connection.connected:
                return connection
            collapse(connection)
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


_of_the_parent: list[object] = []
relay = Relay()
os.register_at_fork(after_in_child=relay.forget)
