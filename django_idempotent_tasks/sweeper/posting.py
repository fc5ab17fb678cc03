"""Sends the messages of the rows that a sweep took, a bounded number of bytes at a time."""

from __future__ import annotations

import logging
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from celery import Celery
from django.db import Error as DatabaseError

from ..conf import settings
from ..ledger.orphans import LOOKS, fail_unsendable
from ..ledger.stores import LedgerStore
from ..ledger.stores.patience import took_too_long
from ..ledger.values import Due
from ..messages.blame import Fault, fault_of
from ..messages.bulk import Bulk
from ..messages.message import Message
from ..messages.queues import Depths
from ..messages.relay import bounded_connection, collapse
from ..states import State
from .bite import Bite

logger = logging.getLogger("django_idempotent_tasks")

#: Octets of messages that are in memory at a time, unless a single one is larger.
BUDGET = 8 * 1024 * 1024
#: Messages that one statement reads, and that one flush sends: when a broker falls silent, nobody knows
#: which of those have arrived, and all are sent again.
AT_ONCE, FLUSH = 200, 50
#: How often a message that went out is left alone while its queue is not empty.
HELD = 3
#: Seconds after which a bite sends no more: forks wait for its end, and the leader's lease goes on.
LONGEST_BITE = 3.0


@dataclass(slots=True)
class Posted:
    """Rows whose sending failed, rows that nobody has tried to send yet, and how many messages went out."""

    unsent: list[Due] = field(default_factory=list)
    left: list[Due] = field(default_factory=list)
    sent: int = 0


def post(rows: list[Due], app: Celery, store: LedgerStore, budget: Bite) -> Posted:
    """Send each row's message on one connection of its own, for at most ``LONGEST_BITE`` seconds."""
    if not rows:
        return Posted()
    try:
        poster = _Post(app, store, budget)
    except Exception as error:  # noqa: BLE001  every transport has its own errors
        logger.warning("The sweeper has no broker (%r); %d rows wait", error, len(rows))
        return Posted(rows)
    try:
        return poster.send(rows)
    finally:
        poster.close()


class _Post:
    """Sends the rows of one bite on one connection of its own; one bad row never stops the others.

    A broker that is away or silent stops them all: the rest waits for the next sweep.
    """

    def __init__(self, app: Celery, store: LedgerStore, budget: Bite) -> None:
        self.app = app
        self.store = store
        self.budget = budget
        self.connection = bounded_connection(app)
        self.depths = Depths(app, self.connection)
        self.bulk = Bulk(app, self.connection)
        self.done = Posted()
        self._is_away = self._has_tried = False
        self._sent_only: list[Due] = []
        self._until = time.monotonic() + LONGEST_BITE

    def send(self, rows: list[Due]) -> Posted:
        """Send what the time allows. Raises what the database raises."""
        rest = deque(rows)
        while rest and not self._is_late:
            self._send_some(self._next(rest))
        self.done.left.extend(rest)
        return self.done

    @property
    def _is_late(self) -> bool:
        """Once one row was tried, so that bite after bite comes to an end."""
        return self._has_tried and time.monotonic() >= self._until

    def close(self) -> None:
        """Give the connection up."""
        with suppress(Exception):
            self.connection.release()

    def _next(self, rest: deque[Due]) -> list[Due]:
        """Take the next rows whose messages fit into the budget; a single one is taken whatever its size."""
        taken: list[Due] = []
        size = 0
        while rest and len(taken) < AT_ONCE:
            size += rest[0].size or 0
            if taken and size > self.budget.size:
                break
            taken.append(rest.popleft())
        return taken

    def _send_some(self, rows: list[Due]) -> None:
        texts = self._texts(rows)
        for row in rows if texts else ():
            text = texts.pop(row.digest, None)
            if text is not None:  # else somebody has taken the key since
                self._send(row, text)
        self._settle()

    def _texts(self, rows: list[Due]) -> dict[UUID, str]:
        """The messages; none where the database does not give them in time."""
        try:
            return self.store.messages({row.digest: row.token for row in rows})
        except DatabaseError as error:
            if not took_too_long(error):
                raise
            self._has_tried, self._until = True, 0.0  # the connection may be gone: the next bite has another
            if len(rows) == 1:
                self._refused(rows[0], error)
            elif self.budget.halve(error):
                self.done.left.extend(rows)
        return {}

    def _send(self, row: Due, text: str) -> None:
        if self._is_away:
            self.done.unsent.append(row)
        elif self._is_late:
            self.done.left.append(row)
        else:
            self._has_tried = True
            try:
                self._try(row, text)
            except DatabaseError as error:
                logger.warning("%s was not sent again: %r", row.task, error)
                self._ask_database()

    def _ask_database(self) -> None:
        """Raise what the database raises, unless it was only one row that it refused."""
        with self.store.connection.cursor() as cursor:
            cursor.execute("SELECT 1")

    def _try(self, row: Due, text: str) -> None:
        try:
            message = Message.decode(row.task, text)
            if row.state is State.RETRY:
                message = message.started()
            has_expired = message.has_expired(now=self.app.now)
        except Exception as error:  # noqa: BLE001  whatever a stored text can make of itself
            self._refused(row, error)
            return
        try:
            if not (has_expired and self._expired(row, message)):
                self._publish(row, message)
        except DatabaseError:
            raise
        except Exception as error:  # noqa: BLE001  every transport has its own errors
            self._failed(row, error)

    def _publish(self, row: Due, message: Message) -> None:
        """Publish a message, unless an earlier one most likely waits in its queue still."""
        self._connect()
        if not self._waits(row, message):
            self.bulk.publish(row, message)
            logger.info("%s is sent again by the sweeper (state %s)", row.task, row.state.name)
        if message.is_sent_only:
            self._sent_only.append(row)
        if len(self.bulk) >= FLUSH:
            self._settle()

    def _settle(self) -> None:
        """Flush the published messages to the broker, and note which of them it has taken."""
        answers = list(self.bulk.flush())
        failed = {row.digest: (row, error) for row, error in answers if error is not None}
        self.done.sent += len(answers) - len(failed)
        sent_only, self._sent_only = self._sent_only, []
        for row in sent_only:
            if row.digest not in failed:
                self.store.sent([row.digest], token=row.token, retention=settings().retention)
        for row, error in failed.values():
            self._failed(row, error)

    def _failed(self, row: Due, error: Exception) -> None:
        """Leave a row that the broker did not take to the next sweep; others wait longer after each look."""
        fault = fault_of(error, self.connection, is_in_use=True)
        if fault in {Fault.BROKER, Fault.REFUSED}:
            logger.warning("%s was not sent again: %r", row.task, error)
            self.done.unsent.append(row)
            self._collapse()
        elif fault is Fault.MESSAGE:
            self._refused(row, error)
        else:
            logger.error(
                "%s cannot be sent now: %r; the sweeper looks at it less and less often", row.task, error
            )

    def _refused(self, row: Due, error: Exception) -> None:
        """Count a look at a message that cannot be read or sent; after ``LOOKS`` it becomes a dead letter.

        Another version, which perhaps runs beside this one, may be able to read or send it.
        """
        logger.error("%s cannot be sent: %r; the sweeper gives it up after %d looks", row.task, error, LOOKS)
        if row.sends >= LOOKS - 1:
            fail_unsendable(self.store, row, error)

    def _connect(self) -> None:
        if self.connection.connected:
            return
        try:
            self.connection.ensure_connection(max_retries=1, interval_start=0, timeout=2)
        except Exception:
            self._is_away = True
            raise

    def _collapse(self) -> None:
        """After a failure: AMQP closes the channel that a row was refused on, others what they please."""
        self._settle()
        self.bulk.forget()
        collapse(self.connection)

    def _expired(self, row: Due, message: Message) -> bool:
        """End the key of an expired message, which the broker may drop silently, again after each sweep."""
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
            logger.warning("The sweeper could not look into the queue of %s: %r", message.task, error)
            self._collapse()
            self._connect()
            return 0
