"""Frees expired leases and sends again what is due: the ledger heals without any message arriving."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from uuid import uuid4

from celery import Celery
from django.db import Error as DatabaseError
from kombu import Connection

from . import signals
from .conf import settings
from .message import Message
from .outcomes import Due
from .stores import LedgerStore, get_store

logger = logging.getLogger("django_idempotent_tasks")

#: The duty's name in the leader table, and its lease and pace in seconds.
DUTY = "sweeper"
LEADER_LEASE = 10
POLL = 3.0
INTERVAL = 5.0
TICK = 0.5
#: Rows of one state that one statement moves.
BITE = 200
#: Transports whose options are those of redis-py.
REDIS = frozenset({"redis", "rediss", "sentinel"})

# Taken by every bite and by every fork, so that no child inherits a connection in use.
_bite_lock = threading.Lock()
os.register_at_fork(
    before=_bite_lock.acquire, after_in_parent=_bite_lock.release, after_in_child=_bite_lock.release
)


def sweep_once(app: Celery, store: LedgerStore) -> int:
    """Free and send one bite; how many rows need no further look now. Raises what the database raises.

    Rows that could not be sent are not counted: they wait for the next sweep, or this one would never end.
    """
    rows = store.sweep(bite=BITE, republish=settings().republish_after)
    unsent = _send([row for row in rows if row.publish], app)
    for row in unsent:
        store.send_failed(row.digest, token=row.token)
    store.sum_duplicates(bite=1000)
    return len(rows) - len(unsent)


def _send(rows: list[Due], app: Celery) -> list[Due]:
    """Send each row's message on one connection of its own; those that could not be sent."""
    if not rows:
        return []
    try:
        with _connection(app) as connection:
            connection.ensure_connection(max_retries=1, timeout=2)
            return [row for row in rows if not _send_one(row, app, connection)]
    except Exception as error:  # noqa: BLE001  every transport has its own errors
        logger.warning("The sweeper cannot reach the broker (%r); %d rows wait", error, len(rows))
        return rows


def _connection(app: Celery) -> Connection:
    """A connection that gives up soon: a fork of the worker waits for the bite that uses it."""
    options: dict[str, object] = dict(app.conf.broker_transport_options or {})
    if app.connection_for_write().transport_cls in REDIS:
        options |= {"socket_connect_timeout": 1, "socket_timeout": 2}
    return app.connection_for_write(connect_timeout=2, transport_options=options)


def _send_one(row: Due, app: Celery, connection: Connection) -> bool:
    """One bad row never stops the others."""
    try:
        Message.decode(row.task, row.message or "").publish(app, connection=connection)
    except ValueError:
        logger.exception("The stored message of %s cannot be read; its row is left alone", row.task)
        return True
    except Exception as error:  # noqa: BLE001
        logger.warning("%s was not sent again: %r", row.task, error)
        return False
    logger.info("%s was sent again by the sweeper (state %s)", row.task, row.state.name)
    return True


class Sweeper:
    """The thread in a worker's parent process: any number may run, one at a time leads."""

    def __init__(self, app: Celery) -> None:
        self.app = app
        self.holder = f"{socket.gethostname()[:60]}:{os.getpid()}:{uuid4().hex[:12]}"
        self._stopped = threading.Event()
        self._leads = False
        self._thread = threading.Thread(target=self._run, name="idempotent-sweeper", daemon=True)

    def start(self) -> None:
        """Begin; needs neither database nor broker yet."""
        self._thread.start()

    def stop(self, *, timeout: float = 3.0) -> None:
        """End, and resign at once so that another worker need not wait for the lease."""
        self._stopped.set()
        self._thread.join(timeout)
        if self._leads:
            self._guarded(lambda store: store.resign(DUTY, holder=self.holder))

    def _run(self) -> None:
        poll = sweep = time.monotonic()
        while not self._stopped.wait(TICK):
            now = time.monotonic()
            if now >= poll:
                poll = now + POLL
                self._leads = self._lead()
            if self._leads and now >= sweep:
                sweep = now + INTERVAL
                self._sweep()

    def _lead(self) -> bool:
        led = bool(self._guarded(lambda store: store.lead(DUTY, holder=self.holder, lease=LEADER_LEASE)))
        if led and not self._leads:
            signals.leader_changed.send_robust(sender=None, name=DUTY, holder=self.holder)
        return led

    def _sweep(self) -> None:
        while not self._stopped.is_set():
            moved = self._guarded(lambda store: sweep_once(self.app, store))
            if not isinstance(moved, int) or moved < BITE:
                return

    def _guarded(self, work: object) -> object:
        """One bite: on a connection that lives as long as it, under the lock that a fork takes."""
        with _bite_lock:
            try:
                with get_store().side_connection() as store:
                    return work(store)  # type: ignore[operator]
            except DatabaseError as error:
                logger.warning("The sweeper cannot reach the ledger: %s", error)
            except Exception:
                logger.exception("A sweep failed; the next one begins anew")
        return None
