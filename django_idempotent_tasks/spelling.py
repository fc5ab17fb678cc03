"""The nearest known name for an unknown one, so that an error can name the remedy."""

from __future__ import annotations

from collections.abc import Iterable


def distance(left: str, right: str) -> int:
    """How many single-character insertions, deletions or replacements lie between two names."""
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, start=1):
        previous, row[0] = row[0], i
        for j, b in enumerate(right, start=1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (a != b))
    return row[-1]


def nearest(name: str, known: Iterable[str], *, within: int) -> str | None:
    """The known name nearest to ``name``, or None when none is within that distance."""
    scored = ((distance(name, other), other) for other in known if abs(len(other) - len(name)) <= within)
    best = min(scored, default=(within + 1, ""))
    return best[1] if best[0] <= within else None
