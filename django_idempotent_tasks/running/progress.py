"""Keeps the newest progress report of an attempt, and writes it beside the key at most once a second."""

from __future__ import annotations

import logging
import time
from threading import Lock
from typing import TYPE_CHECKING

from django.db import Error as DatabaseError
from django.db import transaction

from ..ledger.values import Claim

if TYPE_CHECKING:
    from ..ledger.stores import LedgerStore

logger = logging.getLogger("django_idempotent_tasks")

#: Seconds between two writes of an attempt, and after one that the database did not take.
PACE, PATIENCE = 1.0, 5.0


class Progress:
    """What one attempt says of itself. Said by the body, written by whoever comes to it; never raises."""

    def __init__(self) -> None:
        self._said: list[str] = []  # told apart by identity: the same words may be said twice
        self._written = self._said
        self._free = Lock()
        self._earliest = 0.0

    def say(self, text: str) -> None:
        """The newest word; an older one that is not written yet is forgotten."""
        self._said = [text]

    @property
    def due(self) -> float | None:
        """From when on (monotonic) there is something to write; None when there is nothing."""
        return None if self._said is self._written else self._earliest

    def put_off(self) -> None:
        """The database is away."""
        self._earliest = time.monotonic() + PATIENCE

    def write(self, store: LedgerStore, claim: Claim, *, wait: float = 0.0) -> bool:
        """Write the newest word; False where ``claim`` has lost its key, or somebody has locked its row.

        Another thread that writes is waited for: an older word must not come after a newer one.
        """
        self._earliest = time.monotonic() + PACE
        if not self._free.acquire(timeout=wait):
            return True
        try:
            said = self._said
            if said is not self._written and not store.progress(claim, text=said[0]):
                return False
            self._written = said
            return True
        finally:
            self._free.release()

    def finish(self, store: LedgerStore, claim: Claim) -> None:
        """Write, before the claim is settled, what the last second left over; a courtesy, so no error."""
        if self.due is None:
            return
        try:
            if not store.connection.in_atomic_block:
                self.write(store, claim, wait=PACE)
                return
            with transaction.atomic(using=store.connection.alias):
                self.write(store, claim, wait=PACE)
        except DatabaseError as error:
            logger.debug("The last progress of %s was not written: %r", claim.call.task, error)
