"""Frees expired leases and sends due messages again, one bite at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from celery import Celery

from ..ledger import following, orphans
from ..ledger.moments import database_now
from ..ledger.stores import LedgerStore
from ..ledger.stores.upkeep import LONGEST
from ..ledger.values import Due
from .bite import Bite
from .pauses import drain, hold_back
from .posting import BUDGET, post
from .redrives import carry_out

#: Rows of one state that one statement moves.
BITE = 200
#: Duplicate attempts that one statement adds to their keys.
SUM_BITE = 1000


@dataclass(frozen=True, slots=True)
class Swept:
    """What one bite did: the rows that it took, the rows that could not be sent, and how many were sent.

    ``redriven`` is how many dead letters were looked at for redrive operations; ``goes_on`` is whether
    another bite may find more; rows that could not be sent do not count for that.
    """

    rows: list[Due]
    unsent: list[Due]
    sent: int
    redriven: int = 0
    goes_on: bool = False


@dataclass(slots=True)
class Sweep:
    """One sweep. It takes only rows that were due when it began, so that it ends.

    The next bite sends what a bite has no time to send, perhaps on other connections.
    """

    app: Celery
    bite: Bite = field(default_factory=lambda: Bite(BITE))
    budget: Bite = field(default_factory=lambda: Bite(BUDGET))
    _until: datetime | None = None
    _left: list[Due] = field(default_factory=list)

    def go_on(
        self, store: LedgerStore, *, calm: Callable[[LedgerStore], int] = lambda _store: LONGEST
    ) -> Swept:
        """Do one bite. Raises what the database raises.

        ``calm`` tells for how many seconds the ledger has answered; leases that are longer are not freed.
        """
        promoted = following.promote_all(store, bite=BITE)  # first, so that this very sweep sends them
        if self._until is None:
            drain(store)
            self._until = database_now(store)
        answered = calm(store)  # after that time: an outage between them must not free what is over since
        redriven = carry_out(store)
        size = self.bite.size
        rows, self._left = self._left, []
        taken = [] if rows else self.bite.take(lambda size: self._taken(store, size, answered))
        due = rows or hold_back(store, [row for row in taken or () if row.publish])
        posted = post(due, self.app, store, self.budget)
        for row in posted.unsent:
            store.send_failed(row.digest, token=row.token)
        self._left = posted.left
        goes_on = bool(rows) or taken is None or len(taken) >= size or bool(self._left)
        goes_on |= promoted >= BITE
        goes_on |= any(each.goes_on for each in redriven)
        looked = sum(each.looked for each in redriven)
        return Swept(rows or taken or [], posted.unsent, posted.sent, looked, goes_on)

    @property
    def has_left(self) -> bool:
        """Whether the sweep has taken rows that it has not sent yet."""
        return bool(self._left)

    def give_back(self, store: LedgerStore) -> None:
        """End the sweep early: the rows that it has not sent are due at once."""
        left, self._left = self._left, []
        for row in left:
            store.send_failed(row.digest, token=row.token)

    def _taken(self, store: LedgerStore, size: int, calm: int) -> list[Due]:
        return orphans.sweep(store, bite=size, calm=calm, until=self._until)


def sweep_once(app: Celery, store: LedgerStore, *, calm: int = LONGEST) -> int:
    """Do one bite, and return how many rows need no more work now. Raises what the database raises."""
    swept = sweep_bite(app, store, calm=calm)
    return swept.redriven + len(swept.rows) - len(swept.unsent)


def sweep_bite(app: Celery, store: LedgerStore, *, calm: int = LONGEST) -> Swept:
    """Free, send and sum one bite; rows that it has no time to send are due at once.

    Raises what the database raises.
    """
    sweep = Sweep(app)
    swept = sweep.go_on(store, calm=lambda _store: calm)
    sweep.give_back(store)
    store.sum_duplicates(bite=SUM_BITE)
    return swept
