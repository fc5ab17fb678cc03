"""Beat's clock: the database's time, counted on between two reads; and beat's columns as moments in UTC."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from django.conf import settings as django_settings
from django.db import connections
from django.utils import timezone

from ..conf import settings
from ..ledger.moments import exact


class Clock:
    """The database's time, whatever steps the host's clock takes."""

    def __init__(self) -> None:
        self._base: datetime | None = None
        self._at = 0.0

    def set(self, now: datetime) -> timedelta:
        """Take the database's time; returns how far it is behind the expected time (never negative)."""
        moment = exact(now)
        back = timedelta(0) if self._base is None else max(self.now() - moment, timedelta(0))
        self._base, self._at = moment, time.monotonic()
        return back

    def now(self) -> datetime:
        """The database's time. Raises RuntimeError before the first :meth:`set`."""
        if self._base is None:
            msg = "The clock is not set yet."
            raise RuntimeError(msg)
        return self._base + timedelta(seconds=time.monotonic() - self._at)


def aware(moment: datetime) -> datetime:
    """The moment of a column that Django writes, in UTC; without USE_TZ the column has a local time.

    Columns that the ledger's own statements write are read by :func:`moments.exact`.
    """
    if timezone.is_naive(moment):
        moment = timezone.make_aware(moment, timezone.get_default_timezone())
    return moment.astimezone(UTC)


def stored(moment: datetime) -> datetime:
    """A moment as columns store it. Where that is a local time, an hour that comes twice reads as one."""
    if django_settings.USE_TZ or connections[settings().database].features.supports_timezones:
        return moment
    return timezone.make_naive(moment, timezone.get_default_timezone())
