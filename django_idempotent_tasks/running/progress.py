"""Keeps the newest progress report of an attempt, and writes it beside the key at most once a second."""

from __future__ import annotations

import logging
import time
from contextlib import nullcontext
from threading import Lock
from typing import TYPE_CHECKING

from django.db import Error as DatabaseError

from ..ledger.stores.connection import is_open
from ..ledger.values import Claim

if TYPE_CHECKING:
    from ..ledger.stores import LedgerStore

logger = logging.getLogger("django_idempotent_tasks")

#: Seconds between two writes of an attempt, and after a write that the database did not take.
PACE, PATIENCE = 1.0, 5.0


class Progress:
    """The newest report of one attempt: the body sets it, the heartbeat or the body's thread writes it."""

    def __init__(self) -> None:
        self._newest: list[str] = []  # compared by identity: two reports may have the same text
        self._written = self._newest
        self._free = Lock()
        self._earliest = 0.0

    def report(self, text: str) -> None:
        """Keep the newest report; an older one that is not written yet is forgotten."""
        self._newest = [text]

    @property
    def due(self) -> float | None:
        """When the newest report may be written (monotonic); None when there is none to write."""
        return None if self._newest is self._written else self._earliest

    def put_off(self) -> None:
        """Wait longer until the next write, since the database is away."""
        self._earliest = time.monotonic() + PATIENCE

    def write(self, store: LedgerStore, claim: Claim, *, wait: float = 0.0) -> bool:
        """Write the newest report; False where ``claim`` has lost its key, or another has locked its row.

        Waits for another thread that writes: an older report must not overwrite a newer one.
        """
        self._earliest = time.monotonic() + PACE
        if not self._free.acquire(timeout=wait):
            return True
        try:
            newest = self._newest
            if newest is not self._written and not store.progress(claim, text=newest[0]):
                return False
            self._written = newest
            return True
        finally:
            self._free.release()

    def finish(self, store: LedgerStore, claim: Claim) -> None:
        """Write the last report before the claim is settled; a database error is only logged."""
        if self._newest is self._written:
            return
        try:
            with store.together() if is_open(store.connection) else nullcontext():
                self.write(store, claim, wait=PACE)
        except DatabaseError as error:
            logger.debug("The last progress of %s was not written: %r", claim.call.task, error)
