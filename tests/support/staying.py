"""The other half of waiting: that something does not happen in a time in which it would have."""

from __future__ import annotations

import time
from collections.abc import Callable


def stays(look: Callable[[], object], what: str, *, seconds: float, every: float = 0.1) -> None:
    """Look again and again for so many seconds; fail as soon as there is nothing true to see."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert look(), f"it did not stay so: {what}"
        time.sleep(every)
