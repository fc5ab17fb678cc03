"""Chooses how many rows one statement takes: half as many after a time-out, more again once it is quick."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from django.db import Error as DatabaseError

from ..ledger.stores.patience import took_too_long

Taken = TypeVar("Taken")

logger = logging.getLogger("django_idempotent_tasks")

#: Seconds within which a statement is quick: the next one may take twice as much.
QUICK = 0.5


@dataclass(slots=True)
class Bite:
    """The size of the next bite: at most ``most``, at least 1."""

    most: int
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = self.most

    def take(self, work: Callable[[int], Taken]) -> Taken | None:
        """Call ``work`` with the size; None where the database took too long: try again, with half as many.

        Raises what the database raises, also when a bite of 1 takes too long.
        """
        began = time.monotonic()
        try:
            done = work(self.size)
        except DatabaseError as error:
            if not self.halve(error):
                raise
            return None
        if time.monotonic() - began < QUICK:
            self.size = min(2 * self.size, self.most)
        return done

    def halve(self, error: BaseException) -> bool:
        """Halve the size if the error is a time-out; False for any other error, and at size 1."""
        if self.size <= 1 or not took_too_long(error):
            return False
        self.size //= 2
        logger.warning("The ledger takes too long (%s); the next bite is of %d", error, self.size)
        return True
