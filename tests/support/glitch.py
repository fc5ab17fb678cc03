"""Stops a program just before any chosen line: a clean run lists its lines, later runs are struck at them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

Work = Callable[[], object]


class Missed(Exception):
    """The run did not come to the line at which it was to be struck: it is not the run that was listed."""


@dataclass(frozen=True, slots=True)
class Spot:
    """The moment just before the ``number``-th line of a run.

    ``marker`` is what the given marker said at that moment: spots with the same marker differ in
    nothing that can be seen from outside the process.
    """

    number: int
    file: str
    line: int
    function: str
    marker: object = None

    @property
    def place(self) -> tuple[str, int]:
        """Where it is in the code; a run may come by several times."""
        return self.file, self.line

    def __str__(self) -> str:
        return f"#{self.number} {Path(self.file).name}:{self.line} ({self.function})"


@dataclass(frozen=True)
class Glitch:
    """Watches the lines of ``files`` in the thread that runs the work; ``marker`` is asked at each."""

    files: frozenset[str]
    marker: Callable[[], object] = field(default=lambda: None)

    def spots(self, work: Work) -> list[Spot]:
        """Run ``work`` and list its lines in order."""
        found: list[Spot] = []
        _watched(self, found.append, work)
        return found

    def strike(self, spot: Spot, act: Callable[[], object], work: Work) -> None:
        """Run ``work``, and do ``act`` just before the line of ``spot``.

        Once: a line that comes later, in a handler or after it, is not struck again. Raises
        :class:`Missed` when the run is another one than that which was listed.
        """
        met: list[Spot] = []

        def look(current: Spot) -> None:
            if current.number == spot.number:
                met.append(current)
                if current.place == spot.place:
                    act()

        try:
            _watched(self, look, work)
        finally:
            _see_that_it_was(spot, met)


def files_of(*places: Path, without: Iterable[str] = ()) -> frozenset[str]:
    """Python files and those in folders, as tracebacks name them, but for some names.

    Raises :class:`FileNotFoundError` for a place that is not there: a module that moves must not leave
    the suites that strike at its lines without a word.
    """
    paths = [path for place in places for path in _python_files(place)]
    return frozenset(str(path) for path in paths if path.name not in set(without))


def _python_files(place: Path) -> list[Path]:
    files = [place] if place.is_file() else [*place.glob("*.py")]
    if not files:
        msg = f"{place} is neither a file nor a folder with Python files."
        raise FileNotFoundError(msg)
    return files


def raising(error: Callable[[], BaseException]) -> Callable[[], NoReturn]:
    """An act: raise a new ``error``."""

    def act() -> NoReturn:
        raise error()

    return act


def _see_that_it_was(spot: Spot, met: list[Spot]) -> None:
    if [each.place for each in met] != [spot.place]:
        msg = f"{spot} was not there; the run had {met[0] if met else 'fewer lines'}."
        raise Missed(msg)


def _watched(glitch: Glitch, look: Callable[[Spot], None], work: Work) -> None:
    """Run ``work`` with ``look`` called before each line; what it raises is raised by that line."""
    count = 0

    def at(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        if event == "line":
            code = frame.f_code
            count += 1
            look(Spot(count - 1, code.co_filename, frame.f_lineno, code.co_name, glitch.marker()))
        return at

    def enter(frame: FrameType, _event: str, _argument: Any) -> Any:
        return at if frame.f_code.co_filename in glitch.files else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        work()
    finally:
        sys.settrace(before)
