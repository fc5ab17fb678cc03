"""Writes durations, names of categories and tables as text for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from ..identity.text import harmless
from ..ledger.moments import exact
from ..states import Category

#: How many characters of an error a line of a list shows.
SHOWN = 90
#: How many names of a list are named.
LISTED = 5

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


def listed(names: Sequence[str]) -> str:
    """A few of the names, and how many more there are."""
    more = len(names) - LISTED
    words = ", ".join(harmless(name) for name in names[:LISTED])
    return f"{words} and {more} more" if more > 0 else words


def category_name(category: int | None) -> str | None:
    """The category's name in lower case."""
    return None if category is None else Category(category).name.lower()


def table(rows: Iterable[Sequence[object]]) -> list[str]:
    """Rows as lines of columns, each as wide as its widest cell; cells are made harmless here."""
    cells = [[harmless(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]


def brief(seconds: float | None) -> str:
    """A measured time in one unit: ``85 ms``, ``2.4 s``, ``12 m``."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 100:  # noqa: PLR2004
        return f"{seconds:.1f} s"
    return span(seconds)
