"""The database's clock, by which all times of the ledger are judged."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.functions import Now

from .models import IdempotencyKey
from .stores import LedgerStore, clock


def database_now(store: LedgerStore) -> datetime:
    """The time on the ledger's database, as its rows are read by Django."""
    connection: BaseDatabaseWrapper = store.connection
    compiler = IdempotencyKey.objects.using(connection.alias).query.get_compiler(connection.alias)
    sql, parameters = compiler.compile(Now())
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {sql}", parameters)
        moment = cursor.fetchone()[0]
    for convert in connection.ops.get_db_converters(Now()):
        moment = convert(moment, Now(), connection)
    read: datetime = moment
    return read + timedelta(seconds=clock.offset())
