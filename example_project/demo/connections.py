"""Cuts connections: all that the database or the broker has at one moment, but for the one that asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import connection
from redis import Redis

if TYPE_CHECKING:
    from example_project.servers import Servers

TERMINATE = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
"""

#: Clients that send commands, and those that listen for the worker's remote control.
CLIENTS = ("normal", "pubsub")


class Connections:
    """The connections to servers that were started here. Servers of the user's own are left alone."""

    def __init__(self, servers: Servers) -> None:
        self.database_cut = 0
        self.broker_cut = 0
        self._servers = servers

    @property
    def spared(self) -> bool:
        """Whether a server that was started here has lost no connection."""
        database = self._servers.postgres is not None and not self.database_cut
        return database or (self._servers.broker is not None and not self.broker_cut)

    def cut_database(self) -> str:
        """Cut what the workers and the web server have open to the database, and say how many that were."""
        if self._servers.postgres is None:
            return ""
        with connection.cursor() as cursor:
            cursor.execute(TERMINATE)
            self.database_cut += cursor.fetchone()[0]
        return f"cut {self.database_cut} connections to the database"

    def cut_broker(self) -> str:
        """Cut what the workers and the web server have open to the broker, and say how many that were."""
        if self._servers.broker is None:
            return ""
        with Redis.from_url(self._servers.broker_url) as broker:
            self.broker_cut += sum(broker.client_kill_filter(_type=kind, skipme=True) for kind in CLIENTS)
        return f"cut {self.broker_cut} connections to the broker"
