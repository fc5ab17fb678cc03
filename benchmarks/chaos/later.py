"""What a chaos run does at a later moment, such as letting a frozen process go on."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable


class Later:
    """Acts that wait for their moment, which others let pass by resting here."""

    def __init__(self) -> None:
        self._acts: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def add(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something after so many seconds."""
        heapq.heappush(self._acts, (time.monotonic() + seconds, next(self._numbers), act))

    @property
    def waits(self) -> bool:
        """Whether something is still to be done."""
        return bool(self._acts)

    def do(self) -> None:
        """Do what is due."""
        due = time.monotonic()
        while self._acts and self._acts[0][0] <= due:
            heapq.heappop(self._acts)[2]()

    def rest(self, seconds: float) -> None:
        """Wait, and do meanwhile what becomes due."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.do()
            time.sleep(0.02)
