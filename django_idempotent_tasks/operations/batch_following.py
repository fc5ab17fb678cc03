"""Lets a batch know at once what a person has decided about the key of one of its chunks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from uuid import UUID

from celery.app import app_or_default
from django.db import Error as DatabaseError

from ..ledger import batches
from ..ledger.stores import LedgerStore, commits
from ..ledger.values import Call

logger = logging.getLogger("django_idempotent_tasks")


def follow_soon(store: LedgerStore, *digests: UUID) -> None:
    """After the commit, let the batches of these keys be where their chunks are; keys of no batch are none.

    What fails is logged and left to the sweeper, as is all of it under manual transaction management.
    """
    after_commit(store, lambda: batches.follow(store, digests))


def settle_soon(store: LedgerStore, batch: UUID) -> None:
    """The same for a batch whose chunks have changed."""
    after_commit(store, lambda: batches.settle(store, batch))


def after_commit(store: LedgerStore, look: Callable[[], list[Call]]) -> None:
    """Look at batches after the commit, now where nothing is open, and send what comes after them."""

    def look_and_send() -> None:
        try:
            batches.publish(app_or_default(), store, look())
        except DatabaseError as error:
            logger.warning("The sweeper lets batches follow their chunks, which failed here (%r)", error)

    commits.after_commit(store.connection, look_and_send)  # else the sweeper does it
