"""Helpers for promises about several connections: a common start, an open transaction."""
# ruff: noqa: S101  promises are asserted

from __future__ import annotations

import threading
import unittest
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from django.db import DatabaseError, transaction

from ...ledger.stores import LedgerStore
from ...ledger.values import Claim
from .bench import Bench

T = TypeVar("T")

#: How many claim at the same moment.
RIVALS = 6


class Meeting(Bench):
    """Several connections at one key."""

    def all_at_once(self, work: Callable[[LedgerStore], T]) -> list[T]:
        """The results of several connections that do this at the same moment."""
        together = threading.Barrier(RIVALS)

        def run(_number: int) -> T:
            with self.second_store() as store:
                store.read(self.call().identity.digest, task_id="A")  # connected before it starts
                together.wait(timeout=30)
                return work(store)

        with ThreadPoolExecutor(RIVALS) as threads:
            return list(threads.map(run, range(RIVALS)))

    @contextmanager
    def completing(self, claim: Claim) -> Iterator[None]:
        """Inside, the completion of ``claim`` is written and not yet committed."""
        with self.open_transaction():
            assert self.complete(claim)
            yield

    @contextmanager
    def open_transaction(self) -> Iterator[None]:
        """Inside, what the store does is not yet committed."""
        if not self.has_row_locks:
            raise unittest.SkipTest("one writer at a time: the whole database is locked, not a row")
        with transaction.atomic(using=self.alias):
            yield

    def without_waiting(self, work: Callable[[LedgerStore], T]) -> T:
        """A side connection gives up after a short wait: that it did is the failure."""
        with self.store().side_connection() as side:
            try:
                return work(side)
            except DatabaseError as error:
                raise AssertionError("it waited for a row that somebody else had locked") from error
