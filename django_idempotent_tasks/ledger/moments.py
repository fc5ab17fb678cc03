"""Reads the database's clock, which decides on all times of the ledger, and converts times of its columns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings as django_settings
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.functions import Now
from django.utils import timezone

from ..conf import settings
from ..models import IdempotencyKey
from .stores import LedgerStore, clock


def database_now(store: LedgerStore) -> datetime:
    """The time on the ledger's database, as Django would read it from a row; naive without USE_TZ."""
    connection: BaseDatabaseWrapper = store.connection
    sql, parameters, offset = _clock(store)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {sql}", parameters)
        moment = cursor.fetchone()[0]
    for convert in connection.ops.get_db_converters(Now()):
        moment = convert(moment, Now(), connection)
    read: datetime = moment
    return read + timedelta(seconds=offset)


def exact(moment: datetime) -> datetime:
    """Convert to UTC a moment from :func:`database_now`, or from a column that the ledger's statements write.

    Without USE_TZ such a moment has no zone: PostgreSQL answers in TIME_ZONE, with ``fold`` in an hour
    that comes twice; the statements of MariaDB and SQLite write UTC.
    """
    if timezone.is_naive(moment):
        zone = timezone.get_default_timezone() if _has_zones() else UTC
        moment = moment.replace(tzinfo=zone)
    return moment.astimezone(UTC)


def shifted(moment: datetime, by: timedelta) -> datetime:
    """A moment as :func:`exact` takes it, later by ``by`` in real time, also where the clocks change."""
    return moment + by if timezone.is_aware(moment) else of_column(exact(moment) + by)


def of_column(moment: datetime) -> datetime:
    """Convert a moment with a zone to what the ledger's statements write into a column."""
    if django_settings.USE_TZ:
        return moment
    return timezone.make_naive(moment, timezone.get_default_timezone() if _has_zones() else UTC)


def _clock(store: LedgerStore) -> tuple[str, Any, float]:
    """The SQL of the clock that the store's statements use; Now() would have a MySQL server's time zone."""
    dialect = getattr(store, "dialect", None)
    if dialect is not None:
        return dialect.now(), (), 0
    alias = store.connection.alias
    sql, parameters = IdempotencyKey.objects.using(alias).query.get_compiler(alias).compile(Now())
    return sql, parameters, clock.offset()


def _has_zones() -> bool:
    return bool(connections[settings().database].features.supports_timezones)
