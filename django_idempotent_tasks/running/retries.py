"""Computes how long a retry waits: as a server's ``Retry-After`` asks, or by the task's Celery options."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any

from celery.utils.time import get_exponential_backoff_interval

from ..errors.raised import is_shutdown

#: Longest wait in seconds that a ``Retry-After`` gets.
LONGEST_RETRY_AFTER = 6 * 3600.0


def retry_after(error: BaseException | None, *, now: datetime) -> float:
    """Seconds that a server asked to wait (RFC 9110, 10.2.3); 0 where it did not, or cannot be read.

    Read from ``error.retry_after`` or the header of ``error.response``, in seconds or as a date.
    """
    try:
        return min(_seconds(_asked_by(error), now), LONGEST_RETRY_AFTER)
    except BaseException as own:  # an error's own attributes may raise anything
        if is_shutdown(own):
            raise
        return 0.0


def _asked_by(error: BaseException | None) -> Any:
    asked = getattr(error, "retry_after", None)
    if asked is not None:
        return asked
    headers = getattr(getattr(error, "response", None), "headers", None)
    return headers.get("Retry-After") if isinstance(headers, Mapping) else None


def _seconds(asked: Any, now: datetime) -> float:
    if asked is None or isinstance(asked, bool):
        return 0.0
    if isinstance(asked, timedelta):
        return max(asked.total_seconds(), 0.0)
    try:
        seconds = float(asked)
    except ValueError:
        moment = parsedate_to_datetime(asked)
        if moment.tzinfo is None:  # the old forms of a date have no zone, and mean UTC
            moment = moment.replace(tzinfo=UTC)
        seconds = (moment - now).total_seconds()
    return max(seconds, 0.0) if isfinite(seconds) else 0.0


def retry_options(task: Any, retries: int) -> dict[str, Any]:
    """Options for ``Task.retry``: ``retry_kwargs``, and the delay as Celery's autoretry computes it."""
    options = dict(getattr(task, "retry_kwargs", None) or {})
    factor = float(getattr(task, "retry_backoff", False))
    if factor:
        options["countdown"] = get_exponential_backoff_interval(
            factor=int(max(1.0, factor)),
            retries=retries,
            maximum=int(getattr(task, "retry_backoff_max", 600)),
            full_jitter=bool(getattr(task, "retry_jitter", True)),
        )
    return options
