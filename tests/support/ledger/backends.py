"""PostgreSQL's server processes, ended from its side as an administrator or a failover ends them."""

from __future__ import annotations

from contextlib import closing

from django.db import connections

#: What has a transaction open, and waits for its program.
IDLE = "state = 'idle in transaction'"
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
