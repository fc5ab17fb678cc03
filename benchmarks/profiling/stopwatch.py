"""Times nested steps: each nanosecond belongs to the innermost step that is open."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator
from functools import wraps
from time import perf_counter_ns
from typing import Any


class Stopwatch:
    """What each step took by itself, without the steps inside it.

    ``clock`` gives nanoseconds; another one is for tests.
    """

    def __init__(self, clock: Callable[[], int] = perf_counter_ns) -> None:
        self._clock = clock
        self._open: list[str] = []
        self._since = 0
        self.spent: dict[str, int] = defaultdict(int)

    def begin(self, label: str) -> None:
        """Open a step inside the open one."""
        self._charge()
        self._open.append(label)

    def end(self) -> None:
        """Close the innermost step."""
        self._charge()
        self._open.pop()

    def take(self) -> dict[str, int]:
        """What was spent since the last take."""
        spent, self.spent = self.spent, defaultdict(int)
        return spent

    def timed(self, function: Callable[..., Any], label: str) -> Callable[..., Any]:
        """The function as a step; a ``label`` with a comma in front is added to that of the step around."""

        @wraps(function)
        def step(*args: Any, **kwargs: Any) -> Any:
            self.begin(self._named(label))
            try:
                return function(*args, **kwargs)
            finally:
                self.end()

        return step

    def timed_generator(
        self, function: Callable[..., Generator[Any, Any, Any]], label: str
    ) -> Callable[..., Any]:
        """A generator function as a step; who drives it does nothing else meanwhile."""

        @wraps(function)
        def step(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            self.begin(self._named(label))
            try:
                return (yield from function(*args, **kwargs))
            finally:
                self.end()

        return step

    def _named(self, label: str) -> str:
        return f"{self._open[-1]}{label}" if label.startswith(",") and self._open else label

    def _charge(self) -> None:
        now = self._clock()
        if self._open:
            self.spent[self._open[-1]] += now - self._since
        self._since = now
