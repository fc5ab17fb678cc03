"""Frees expired leases and sends again what is due: the ledger heals without any message arriving."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

from celery import Celery
from django.db import Error as DatabaseError
from kombu.exceptions import OperationalError

from . import doubted, outage, signals
from .conf import settings
from .hourly import count_hours
from .message import Message
from .outcomes import Due
from .pruning import prune_bite
from .queues import Depths
from .redrives import carry_on
from .relay import bounded_connection, collapse
from .states import State
from .stores import LedgerStore, get_store
from .stores.upkeep import LONGEST
from .unsendable import LOOKS, give_up, is_unsendable

logger = logging.getLogger("django_idempotent_tasks")

#: The duty's name in the leader table, and its lease and pace in seconds.
DUTY = "sweeper"
LEADER_LEASE = 10
POLL = 3.0
INTERVAL = 5.0
TICK = 0.5
#: Seconds between two looks for an hour that is over and not counted.
COUNT_EVERY = 60.0
#: Rows of one state that one statement moves.
BITE = 200
#: How often a message that went out is left alone while its queue is not empty.
HELD = 3
#: Seconds after which a bite sends no more: forks wait for its end, and the leader's lease goes on.
LONGEST_BITE = 3.0

# Taken by every bite and by every fork, so that no child inherits a connection in use.
_bite_lock = threading.Lock()
os.register_at_fork(
    before=_bite_lock.acquire, after_in_parent=_bite_lock.release, after_in_child=_bite_lock.release
)


@dataclass(frozen=True, slots=True)
class Swept:
    """What one bite did: the rows that it took, those of them that could not be sent, messages sent.

    ``redriven`` is how many dead letters were looked at for redrive operations.
    """

    rows: list[Due]
    unsent: list[Due]
    sent: int
    redriven: int = 0

    @property
    def moved(self) -> int:
        """How many rows need no further look now.

        Rows that could not be sent wait for the next sweep, or this one would never end.
        """
        return self.redriven + len(self.rows) - len(self.unsent)


def sweep_once(app: Celery, store: LedgerStore, *, calm: int = LONGEST) -> int:
    """Free and send one bite; how many rows need no further look now. Raises what the database raises."""
    return sweep_bite(app, store, calm=calm).moved


def sweep_bite(app: Celery, store: LedgerStore, *, calm: int = LONGEST) -> Swept:
    """Free and send one bite. Raises what the database raises.

    ``calm``: seconds for which the ledger has answered; leases that are longer are not freed.
    """
    redriven = carry_on(store)
    rows = store.sweep(bite=BITE, republish=settings().republish_after, calm=calm)
    for row in rows:  # at once: no later sweep takes these rows, should anything below fail
        if row.state is State.REVIEW:
            doubted.tell(store, row.digest)
    unsent, sent = _send([row for row in rows if row.publish], app, store)
    for row in unsent:
        store.send_failed(row.digest, token=row.token)
    store.sum_duplicates(bite=1000)
    return Swept(rows, unsent, sent, redriven)


def _send(rows: list[Due], app: Celery, store: LedgerStore) -> tuple[list[Due], int]:
    """Send each row's message on one connection of its own; which could not be sent, and how many were."""
    if not rows:
        return [], 0
    try:
        post = _Post(app, store)
    except Exception as error:  # noqa: BLE001  every transport has its own errors
        logger.warning("The sweeper has no broker (%r); %d rows wait", error, len(rows))
        return rows, 0
    try:
        return [row for row in rows if not post.send(row)], post.sent
    finally:
        post.close()


class _Post:
    """Sends the rows of one bite on one connection of its own; one bad row never stops the others.

    A broker that is away or silent does: what is left waits for the next sweep, and forks for no more
    than that.
    """

    def __init__(self, app: Celery, store: LedgerStore) -> None:
        self.app = app
        self.store = store
        self.connection = bounded_connection(app)
        self.depths = Depths(app, self.connection)
        self.sent = 0
        self._until = time.monotonic() + LONGEST_BITE

    def send(self, row: Due) -> bool:
        """Whether nothing is left to do for the row now."""
        try:
            message = Message.decode(row.task, row.message or "")
        except ValueError as error:
            return self._refused(row, error)
        if row.state is State.RETRY:
            message = message.started()
        try:
            return self._expired(row, message) or self._deliver(row, message)
        except DatabaseError:
            raise
        except Exception as error:  # noqa: BLE001  every transport has its own errors
            if is_unsendable(error):
                return self._refused(row, error)
            self._doubt(row, error)
            return False

    def _refused(self, row: Due, error: Exception) -> bool:
        """A message that no broker was asked about: looked at less and less often, and then given up.

        Another version, which perhaps runs beside this one, may be able to read or send it.
        """
        logger.error("%s cannot be sent: %r; it is given up after %d looks", row.task, error, LOOKS)
        if row.sends >= LOOKS - 1:
            give_up(self.store, row, error)
        return True

    def close(self) -> None:
        """Give the connection up."""
        with suppress(Exception):
            self.connection.release()

    def _deliver(self, row: Due, message: Message) -> bool:
        """Whether the message is with the broker, as far as one can know."""
        if time.monotonic() >= self._until:
            return False
        self._connect()
        if not self._waits(row, message):
            message.publish(self.app, connection=self.connection)
            self.sent += 1
            logger.info("%s was sent again by the sweeper (state %s)", row.task, row.state.name)
        if message.is_sent_only:
            self.store.sent([row.digest], token=row.token, retention=settings().retention)
        return True

    def _connect(self) -> None:
        try:
            self.connection.ensure_connection(max_retries=1, interval_start=0, timeout=2)
        except Exception:
            self._until = 0.0
            raise

    def _doubt(self, row: Due, error: Exception) -> None:
        """After a failure: AMQP closes the channel that a row was refused on, others what they please."""
        logger.warning("%s was not sent again: %r", row.task, error)
        connection = self.connection
        if isinstance(error, (OperationalError, *connection.connection_errors, *connection.channel_errors)):
            collapse(connection)

    def _expired(self, row: Due, message: Message) -> bool:
        """A broker may drop an expired message without a word, and the key would be sent for ever."""
        if not message.has_expired(now=self.app.now()):
            return False
        task_id = str(message.options.get("task_id"))
        return self.store.expire(row.digest, task_id=task_id, window=settings().redelivery_window)

    def _waits(self, row: Due, message: Message) -> bool:
        """Whether a message that went out before most likely still waits in its queue.

        A deep queue is not doubled. After ``HELD`` looks, each later than the one before, it is sent
        all the same: the queue may be busy and the message lost.
        """
        return 1 <= row.sends <= HELD and self._depth(message) > 0

    def _depth(self, message: Message) -> int:
        """How many wait in its queue; none where the look fails, for which the message is not to blame."""
        try:
            return self.depths.of(message)
        except Exception as error:  # noqa: BLE001  every transport has its own errors
            logger.warning("The queue of %s was not looked into: %r", message.task, error)
            collapse(self.connection)
            self._connect()
            return 0


class Sweeper:
    """The thread in a worker's parent process, or a process of its own: any number may run, one leads.

    ``database`` is the alias of the ledger; by default what the settings say. While ``may_lead`` says no
    it does not lead, and gives back a lead that it has: a worker that takes no messages any more, or
    hangs in its shutdown, leaves the duty to another one.
    """

    def __init__(
        self, app: Celery, *, database: str | None = None, may_lead: Callable[[], bool] = lambda: True
    ) -> None:
        self.app = app
        self.database = database
        self.may_lead = may_lead
        self.holder = f"{socket.gethostname()[:60]}:{os.getpid()}:{uuid4().hex[:12]}"
        self._stopped = threading.Event()
        self._leads = False
        self._count_at = 0.0
        self._thread = threading.Thread(target=self._run, name="idempotent-sweeper", daemon=True)

    def start(self) -> None:
        """Begin; needs neither database nor broker yet."""
        self._thread.start()

    def stop(self, *, timeout: float = 3.0) -> None:
        """End, and resign at once so that another worker need not wait for the lease."""
        self.end()
        self._thread.join(timeout)
        self._resign()

    def run(self) -> None:
        """Lead and sweep in the calling thread until another one calls :meth:`end`; then resign."""
        try:
            self._run()
        finally:
            self._resign()

    def end(self) -> None:
        """Ask it to end, without waiting. Not from a signal handler of the thread that runs it."""
        self._stopped.set()

    def _resign(self) -> None:
        if self._leads:
            self._leads = False
            self._guarded(lambda store: store.resign(DUTY, holder=self.holder))

    def _run(self) -> None:
        poll = sweep = time.monotonic()
        while not self._stopped.wait(TICK):
            now = time.monotonic()
            if not self.may_lead():
                self._resign()
            if now >= poll:
                poll = now + POLL
                self._leads = self._lead()
            if self._leads and now >= sweep:
                sweep = now + INTERVAL
                self._sweep()

    def _lead(self) -> bool:
        led = bool(self._guarded(self._asked_to_lead))
        if led and not self._leads:
            signals.leader_changed.send_robust(sender=None, name=DUTY, holder=self.holder)
        return led

    def _asked_to_lead(self, store: LedgerStore) -> bool:
        outage.note(store)  # who stands by or may not lead as well: neither is an outage of the ledger
        return self.may_lead() and store.lead(DUTY, holder=self.holder, lease=LEADER_LEASE)

    def _sweep(self) -> None:
        while not self._stopped.is_set():
            moved = self._guarded(lambda store: sweep_once(self.app, store, calm=outage.note(store)))
            if not isinstance(moved, int) or moved < BITE:
                break
        self._guarded(prune_bite)
        if time.monotonic() >= self._count_at:
            self._count_at = time.monotonic() + COUNT_EVERY
            self._guarded(count_hours)

    def _guarded(self, work: object) -> object:
        """One bite: on a connection that lives as long as it, under the lock that a fork takes."""
        with _bite_lock:
            try:
                with get_store(self.database).side_connection() as store:
                    return work(store)  # type: ignore[operator]
            except DatabaseError as error:
                logger.warning("The sweeper cannot reach the ledger: %s", error)
            except Exception:
                logger.exception("A sweep failed; the next one begins anew")
        return None
