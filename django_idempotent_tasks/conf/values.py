"""Checks values of settings and task options, and finds the known name nearest to a typo.

Each check raises :class:`ConfigurationError` that begins with ``name``.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from math import ceil, isfinite
from typing import Any

from ..exceptions import ConfigurationError

#: Longest accepted duration in seconds (about 31 years): further ones overflow a date column.
LONGEST = 1_000_000_000


def whole_seconds(value: object, *, name: str, least: int = 0) -> int:
    """The duration, a number or a timedelta from ``least`` to LONGEST, as whole seconds, rounded up."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not isfinite(seconds):
        msg = f"{name} must be seconds or a timedelta, not {value!r}."
        raise ConfigurationError(msg)
    if not least <= seconds <= LONGEST:
        msg = f"{name} must be between {least} s and {LONGEST} s, not {value!r}."
        raise ConfigurationError(msg)
    return ceil(seconds)


def whole_number(value: object, *, name: str, least: int) -> int:
    """The value, an int of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        msg = f"{name} must be a whole number of at least {least}, not {value!r}."
        raise ConfigurationError(msg)
    return value


def flag(value: object, *, name: str) -> bool:
    """The value, True or False."""
    if not isinstance(value, bool):
        msg = f"{name} must be True or False, not {value!r}."
        raise ConfigurationError(msg)
    return value


def one_of(choices: Iterable[str], value: object, *, name: str) -> str:
    """The value, one of the choices."""
    if not isinstance(value, str) or value not in choices:
        msg = f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}."
        raise ConfigurationError(msg)
    return value


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


def classes(throws: Any) -> tuple[type[BaseException], ...]:
    """The exception classes of Celery's ``throws``, which Celery does not check."""
    given = throws if isinstance(throws, tuple | list) else (throws,)
    return tuple(item for item in given if isinstance(item, type) and issubclass(item, BaseException))
