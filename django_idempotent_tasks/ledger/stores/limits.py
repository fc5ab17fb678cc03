"""Sets PostgreSQL's time limits on a side connection, in each of its transactions.

A pooler such as PgBouncer takes none when a client connects, and would leave a session's to its next client.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.db.backends.base.base import BaseDatabaseWrapper

#: As a text without parameters this is one message to the server. Who says nothing for so long between a
#: statement and its COMMIT has vanished, or stands still: else it would hold a sweep's rows, or the lead.
BEGIN = (
    "BEGIN; SET LOCAL idle_in_transaction_session_timeout = 15000;"
    " SET LOCAL statement_timeout = 2000; SET LOCAL lock_timeout = 2000"
)

_IDLE = 0  # of libpq's PGTransactionStatusType


@contextmanager
def limited(connection: BaseDatabaseWrapper, sql: str) -> Iterator[str]:
    """What to say in place of ``sql`` so that it gives up soon, alone or in the open transaction."""
    if int(connection.connection.info.transaction_status) != _IDLE:
        yield sql
        return
    if sql == "BEGIN":
        yield BEGIN
        return
    _say(connection, BEGIN)
    try:
        yield sql
    except BaseException:
        with suppress(Exception):  # gone with its connection
            _say(connection, "ROLLBACK")
        raise
    _say(connection, "COMMIT")


def _say(connection: BaseDatabaseWrapper, sql: str) -> None:
    """By the driver: Django would have this wrapped again."""
    with connection.wrap_database_errors, connection.connection.cursor() as cursor:
        cursor.execute(sql)
