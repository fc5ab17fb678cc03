"""A sweep, bite by bite: it frees expired leases and sends again what is due."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from celery import Celery

from ..conf import settings
from ..ledger import doubted
from ..ledger.moments import database_now
from ..ledger.stores import LedgerStore
from ..ledger.stores.upkeep import LONGEST
from ..ledger.values import Due
from ..states import State
from .bite import Bite
from .posting import BUDGET, post
from .redrives import carried

#: Rows of one state that one statement moves.
BITE = 200
#: Duplicate attempts that one statement adds to their keys.
SUM_BITE = 1000


@dataclass(frozen=True, slots=True)
class Swept:
    """What one bite did: the rows that it took, those of them that could not be sent, messages sent.

    ``redriven`` is how many dead letters were looked at for redrive operations; ``goes_on`` whether
    another bite may find something, which rows that could not be sent do not decide.
    """

    rows: list[Due]
    unsent: list[Due]
    sent: int
    redriven: int = 0
    goes_on: bool = False


@dataclass(slots=True)
class Sweep:
    """The bites of one sweep. It takes what was due when it began, so that it ends.

    What one bite has no time to send is sent by the next, perhaps on other connections.
    """

    app: Celery
    bite: Bite = field(default_factory=lambda: Bite(BITE))
    budget: Bite = field(default_factory=lambda: Bite(BUDGET))
    _until: datetime | None = None
    _left: list[Due] = field(default_factory=list)

    def go_on(self, store: LedgerStore, *, calm: int = LONGEST) -> Swept:
        """One bite. Raises what the database raises.

        ``calm``: seconds for which the ledger has answered; leases that are longer are not freed.
        """
        if self._until is None:
            self._until = database_now(store)
        redriven = carried(store)
        size = self.bite.size
        rows, self._left = self._left, []
        taken = [] if rows else self.bite.take(lambda size: self._taken(store, size, calm))
        posted = post(rows or [row for row in taken or () if row.publish], self.app, store, self.budget)
        for row in posted.unsent:
            store.send_failed(row.digest, token=row.token)
        self._left = posted.left
        goes_on = bool(rows) or taken is None or len(taken) >= size or bool(self._left)
        goes_on |= any(each.goes_on for each in redriven)
        looked = sum(each.looked for each in redriven)
        return Swept(rows or taken or [], posted.unsent, posted.sent, looked, goes_on)

    @property
    def has_left(self) -> bool:
        """Whether it has taken rows that it has not sent."""
        return bool(self._left)

    def give_back(self, store: LedgerStore) -> None:
        """End before everything is sent: what is left is due at once."""
        left, self._left = self._left, []
        for row in left:
            store.send_failed(row.digest, token=row.token)

    def _taken(self, store: LedgerStore, size: int, calm: int) -> list[Due]:
        rows = store.sweep(bite=size, republish=settings().republish_after, calm=calm, until=self._until)
        for row in rows:  # at once: no later sweep takes these rows, should anything below fail
            if row.state is State.REVIEW:
                doubted.tell(store, row.digest)
        return rows


def sweep_once(app: Celery, store: LedgerStore, *, calm: int = LONGEST) -> int:
    """Free and send one bite; how many rows need no further look now. Raises what the database raises."""
    swept = sweep_bite(app, store, calm=calm)
    return swept.redriven + len(swept.rows) - len(swept.unsent)


def sweep_bite(app: Celery, store: LedgerStore, *, calm: int = LONGEST) -> Swept:
    """Free, send and sum one bite; what it has no time for is due at once.

    Raises what the database raises.
    """
    sweep = Sweep(app)
    swept = sweep.go_on(store, calm=calm)
    sweep.give_back(store)
    store.sum_duplicates(bite=SUM_BITE)
    return swept
