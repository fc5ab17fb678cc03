"""Waits for something that can be observed, for a bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")

#: Seconds. Far above what anything here takes, since the machine may be busy with other work.
PATIENCE = 30.0


def eventually(
    look: Callable[[], Seen | None], what: str, *, within: float = PATIENCE, every: float = 0.02
) -> Seen:
    """Look until there is something true to see, and return it; else fail, saying what was seen last."""
    deadline = time.monotonic() + within
    while not (seen := look()):
        assert time.monotonic() < deadline, f"not within {within} s: {what}; last seen: {seen!r}"
        time.sleep(every)
    return seen
