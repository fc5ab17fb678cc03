"""Makes calls due before their time whose queue is empty: a worker that vanished has taken their messages.

A message that is in no queue is with a living worker, or lost with a dead one. Nobody can tell which, and a
second message does no harm: the key is run once. An atomic body that runs holds the lock of its row, which
is passed over then.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from celery import Celery
from kombu import Connection

from ..conf import settings
from ..ledger.moments import database_now, exact, shifted
from ..ledger.stores import LedgerStore
from ..ledger.stores.connection import read_on
from ..messages.message import Message
from ..messages.queues import Depths, queue_of
from ..messages.relay import bounded_connection, collapse
from ..models import IdempotencyKey
from ..states import State
from .bite import Bite

#: Seconds after the first message, when a call may be due early; twice as many after each later one.
SOON = 20
#: The longest pause between two messages of a call, in seconds, as the statements of the sweep have it.
LONGEST_PAUSE = 3600
#: Waiting keys that one look reads, messages that it reads to learn their queues, and the octets of each.
ROWS, MESSAGES, SIZE = 1000, 200, 64 * 1024
#: Calls of one queue that one look makes due: once these are sent, the queue is not empty.
MOST = 100

_ROW = ("digest", "token", "task", "due_at", "open_at", "sends")


@dataclass(slots=True)
class Early:
    """Looks at the calls that wait for a worker, a page at a time, the oldest first."""

    app: Celery
    _bite: Bite = field(default_factory=lambda: Bite(ROWS))
    _after: dict[State, datetime | None] = field(default_factory=dict)
    #: The queues of calls that were looked at before; their messages are not read again.
    _known: dict[UUID, str] = field(default_factory=dict)

    def go_on(self, store: LedgerStore) -> int:
        """Do one look; how many calls it made due. Raises what the database and the broker raise."""
        if settings().republish_after <= SOON:
            return 0
        late = [row for state in (State.PENDING, State.RETRY) for row in self._late(store, state)]
        by_queue = defaultdict(list)
        queues = self._queues(store, late)
        for row in late:
            if row.digest in queues:
                by_queue[queues[row.digest]].append(row)
        self._known = queues
        empty = self._empty(list(by_queue))
        found = [row for name in empty for row in by_queue[name][:MOST]]
        return sum(store.hasten(row.digest, token=row.token) for row in found)

    def _late(self, store: LedgerStore, state: State) -> list[IdempotencyKey]:
        """Those of the next page whose last message is out for so long that a look is worth while."""
        now = database_now(store)
        after = self._after.get(state) or now
        rows = IdempotencyKey.objects.filter(state=state, due_at__gt=after, message__isnull=False)
        size = self._bite.size
        page = self._bite.take(lambda size: list(read_on(store, rows.order_by("due_at")[:size], _ROW)))
        self._after[state] = page[-1].due_at if page and len(page) == size else None
        return [row for row in page or () if _is_late(row, now)]

    def _queues(self, store: LedgerStore, rows: list[IdempotencyKey]) -> dict[UUID, str]:
        """The queues of as many of these calls as one look may learn."""
        known = {row.digest: self._known[row.digest] for row in rows if row.digest in self._known}
        unknown = [row for row in rows if row.digest not in known][:MESSAGES]
        sizes = store.sizes([row.digest for row in unknown])
        small = {row.digest: row for row in unknown if sizes.get(row.digest, SIZE) < SIZE}
        texts = store.messages({digest: row.token for digest, row in small.items()})
        for digest, text in texts.items():
            name = _queue(self.app, small[digest].task, text)
            if name is not None:
                known[digest] = name
        return known

    def _empty(self, names: list[str]) -> list[str]:
        """Those of these queues in which no message waits."""
        if not names:
            return []
        connection = bounded_connection(self.app)
        try:
            return self._asked(connection, names)
        finally:
            collapse(connection)

    def _asked(self, connection: Connection, names: list[str]) -> list[str]:
        connection.ensure_connection(max_retries=1, interval_start=0, timeout=2)
        depths = Depths(self.app, connection)
        return [name for name in names if depths.of_queue(name) == 0]


def _is_late(row: IdempotencyKey, now: datetime) -> bool:
    """Whether a key's last message went out long ago, as its due time and the number of sends tell.

    A key that a child gave back a moment ago has its message with its worker's parent, which puts it back.
    """
    republish = settings().republish_after
    if row.sends < 0 or row.due_at is None:  # no message is out
        return False
    if row.open_at is not None and exact(shifted(row.open_at, timedelta(seconds=SOON))) > exact(now):
        return False
    doubled: int = 2 ** min(max(row.sends - 1, 0), 11)
    pause = republish if row.sends == 0 else min(republish * doubled, LONGEST_PAUSE)
    rest = pause * (1 - SOON / republish)
    return exact(row.due_at) <= exact(shifted(now, timedelta(seconds=rest)))


def _queue(app: Celery, task: str, text: str) -> str | None:
    """The queue to which a stored message goes; None where only the broker knows, or nobody."""
    try:
        message = Message.decode(task, text)
        if message.is_sent_only or (message.options.get("exchange") and not message.options.get("queue")):
            return None
        return queue_of(app, message)
    except Exception:  # noqa: BLE001  whatever a stored text or a router of the project makes of itself
        return None
