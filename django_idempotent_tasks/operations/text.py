"""Writes durations, names of categories and tables as text for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from ..identity.text import harmless
from ..ledger.moments import exact
from ..states import Category

#: How many characters of an error a line of a list shows.
SHOWN = 90

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def span(seconds: float) -> str:
    """A duration in its two largest units: ``3 h 5 m``."""
    rest, parts = max(int(seconds), 0), []
    for size, unit in _UNITS:
        if rest >= size:
            parts.append(f"{rest // size} {unit}")
        rest %= size
    return " ".join(parts[:2]) or "0 s"


def since(moment: datetime | None, now: datetime) -> str:
    """How long ago a moment was."""
    return "-" if moment is None else span((exact(now) - exact(moment)).total_seconds())


def category_name(category: int | None) -> str | None:
    """The category's name in lower case."""
    return None if category is None else Category(category).name.lower()


def table(rows: Iterable[Sequence[object]]) -> list[str]:
    """Rows as lines of columns, each as wide as its widest cell; cells are made harmless here."""
    cells = [[harmless(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
