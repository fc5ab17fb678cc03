"""What a queue is asked to do when jobs are sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django.db import transaction

Arguments = dict[str, Any]


@dataclass(frozen=True)
class Sender:
    """How a queue takes one job, many jobs, and (None: it refuses none) one that it has already.

    ``after_commit``: a job of a transaction is sent by ``on_commit``, since the queue is not in it.
    """

    one: Callable[[Arguments], object]
    many: Callable[[Iterable[Arguments]], object]
    refused: Callable[[Arguments], object] | None = None
    after_commit: bool = False

    def in_transaction(self, arguments: Arguments) -> None:
        """Send within the open transaction, or after it."""
        if self.after_commit:
            transaction.on_commit(lambda: self.one(arguments))
        else:
            self.one(arguments)
