"""The server's side of a connection: an administrator or a failover ends it, or a dead process leaves it."""

from __future__ import annotations

from contextlib import closing

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from tests.support.waiting import eventually

#: Everybody else.
OTHERS = "pid <> pg_backend_pid()"


def terminate(condition: str, *, alias: str) -> int:
    """End the processes of this database of which pg_stat_activity says this; when they have ended, how many.

    Other tests, in another process, have databases of their own on the same server.
    """
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 5000))"  # noqa: S608
            f" FROM pg_stat_activity WHERE datname = current_database() AND {condition}"
        )
        return int(cursor.fetchone()[0])


def cut(alias: str) -> None:
    """End the process that serves this connection of ours, which does not hear of it."""
    connection = connections[alias]
    connection.ensure_connection()
    pid = connection.connection.info.backend_pid
    other = connection.copy()
    with closing(other), other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        assert cursor.fetchone() == (True,), "the process has not ended within 5 s"


#: How many others may have a transaction open in this connection's database. SQLite's lock ends with its
#: process. InnoDB's list of transactions is a copy that no look within 0.1 s of another one renews: there it
#: is the connections that count, each listed until it is rolled back.
_OPEN = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity"  # noqa: S608
    f" WHERE datname = current_database() AND {OTHERS} AND xact_start IS NOT NULL"
    " AND backend_type = 'client backend'",
    "mysql": "SELECT count(*) FROM information_schema.processlist"
    " WHERE db = DATABASE() AND id <> CONNECTION_ID()",
}


def wait_for_rollbacks() -> None:
    """Wait until the servers have rolled back what a dead process left open; they hear of its end later."""
    for connection in connections.all(initialized_only=True):
        if connection.vendor in _OPEN:
            eventually(lambda: _is_alone(connection), "no transaction is open", every=0.002)  # noqa: B023


def _is_alone(connection: BaseDatabaseWrapper) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_OPEN[connection.vendor])
        return int(cursor.fetchone()[0]) == 0
