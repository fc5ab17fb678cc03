"""Waiting for what other processes do, in threads that must be able to end early."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

EVERY = 0.05


class Stopped(Exception):
    """The run is being given up."""


class Watch:
    """Waits until something holds; ``stop()`` ends every wait, in whatever thread."""

    def __init__(self) -> None:
        self._over = threading.Event()

    def until(self, condition: Callable[[], bool], *, seconds: float) -> bool:
        """Ask again and again until it holds or the time is over; whether it holds. Raises Stopped."""
        deadline = time.monotonic() + seconds
        while not (held := condition()) and time.monotonic() < deadline:
            self._pause(EVERY)
        return held

    def till(self, moment: float) -> None:
        """Let time pass up to a moment of the wall clock. Raises Stopped."""
        self._pause(max(0.0, moment - time.time()))

    def stop(self) -> None:
        """End all waits, now and later."""
        self._over.set()

    def _pause(self, seconds: float) -> None:
        if self._over.wait(seconds):
            raise Stopped
