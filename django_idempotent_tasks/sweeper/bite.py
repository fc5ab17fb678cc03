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
    """At most ``most``, and at least 1."""

    most: int
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = self.most

    def take(self, work: Callable[[int], Taken]) -> Taken | None:
        """What ``work`` makes of a bite; None where it took too long, and is to be tried again.

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
        """Take half of it the next time; False for another error, or where there is no half."""
        if self.size <= 1 or not took_too_long(error):
            return False
        self.size //= 2
        logger.warning("The ledger takes too long (%s); the next bite is of %d", error, self.size)
        return True
