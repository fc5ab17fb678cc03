"""Durations as users write them: seconds or timedelta."""

from __future__ import annotations

from datetime import timedelta
from math import ceil, isfinite

from .exceptions import ConfigurationError

#: Longest accepted duration in seconds (about 31 years): further ones overflow a date column.
LONGEST = 1_000_000_000


def whole_seconds(value: object, *, name: str, least: int = 0) -> int:
    """The duration as whole seconds, rounded up.

    Raises :class:`ConfigurationError` naming ``name`` when it is not a number or timedelta, or is
    below ``least`` seconds or absurdly long.
    """
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not isfinite(seconds):
        msg = f"{name} must be seconds or a timedelta, not {value!r}."
        raise ConfigurationError(msg)
    if not least <= seconds <= LONGEST:
        msg = f"{name} must be between {least} s and {LONGEST} s, not {value!r}."
        raise ConfigurationError(msg)
    return ceil(seconds)
