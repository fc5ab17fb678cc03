"""Lets due calls of paused tasks wait, and makes them due again, at a rate, once their pause is over."""

from __future__ import annotations

import logging
import time
from uuid import UUID

from ..conf import settings
from ..ledger.paused import Paused
from ..ledger.stores import LedgerStore
from ..ledger.stores.connection import read_on
from ..ledger.values import Due
from ..models import IdempotencyKey

logger = logging.getLogger("django_idempotent_tasks")

#: Seconds after a pause's end in which a process that knows nothing of it may still leave a call to it.
SETTLED = 30.0
#: Seconds' worth of calls that one look makes due at most, and the most that one statement does.
CATCH_UP, BITE = 10, 500
#: Pauses that one statement deletes.
PRUNE_BITE = 100


def hold_back(store: LedgerStore, rows: list[Due]) -> list[Due]:
    """The rows whose messages may go out; the calls of paused tasks wait for the end of the pause."""
    active = store.active_pauses() if rows else []
    paused = {each.task for each in active}
    maybe = [row for row in rows if row.task in paused]
    if not maybe:
        return rows
    scopes = _scopes(store, maybe)
    held = {row.digest for row in maybe if _is_parked(store, row, scopes.get(row.digest), active)}
    return [row for row in rows if row.digest not in held]


def _is_parked(store: LedgerStore, row: Due, scope: str | None, active: list[Paused]) -> bool:
    pause = next((each for each in active if each.holds(row.task, scope)), None)
    return pause is not None and store.park(row.digest, token=row.token, pause=pause.id)


def _scopes(store: LedgerStore, rows: list[Due]) -> dict[UUID, str | None]:
    found = IdempotencyKey.objects.filter(digest__in=[row.digest for row in rows])
    return {row.digest: row.scope for row in read_on(store, found, ("digest", "scope"))}


def drain(store: LedgerStore) -> int:
    """Make calls due whose pause is over, as many as its rate allows by now; how many."""
    number = 0
    for pause in store.ended_pauses():
        most, done = _pace.allowed(pause), 0
        while done < most and (bite := store.unpark(pause, bite=min(most - done, BITE))):
            done += bite
        _pace.spent(pause, done)
        number += done
        if most and not done and pause.ended_for > SETTLED and store.drained(pause):
            logger.info("No call waits any more for the pause %d of %s", pause.id, pause.task)
            _pace.forget(pause)
            store.prune_pauses(keep=settings().dead_letter_retention, bite=PRUNE_BITE)
    return number


class _Pace:
    """How many calls each ended pause may make due now: its rate, by the time since this process last did."""

    def __init__(self) -> None:
        self._left: dict[int, tuple[float, float]] = {}

    def allowed(self, pause: Paused) -> int:
        """One second's worth at the first look, then the rate times the seconds since the last look."""
        now = time.monotonic()
        looked, left = self._left.get(pause.id, (now, float(pause.rate)))
        left = min(left + pause.rate * (now - looked), float(pause.rate * CATCH_UP))
        self._left[pause.id] = (now, left)
        return int(left)

    def spent(self, pause: Paused, calls: int) -> None:
        """Subtract the calls that were made due."""
        looked, left = self._left[pause.id]
        self._left[pause.id] = (looked, left - calls)

    def forget(self, pause: Paused) -> None:
        """The pause is drained."""
        self._left.pop(pause.id, None)


_pace = _Pace()
