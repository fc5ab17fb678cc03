"""PostgreSQL and Valkey for the demo, the benchmarks and the tests; nothing is installed on the system."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from example_project.servers.broker import start_broker
from example_project.servers.directories import ServerUnavailable, fresh_directory
from example_project.servers.postgres import start_postgres
from example_project.servers.process import Server

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

__all__ = [
    "Server",
    "ServerUnavailable",
    "Servers",
    "ensure_servers",
    "fresh_directory",
    "start_broker",
    "start_postgres",
]


@dataclass(frozen=True)
class Servers:
    """The database and the broker to use; ``postgres`` or ``broker`` is None where the environment chose."""

    database_url: str
    broker_url: str
    postgres: Server | None
    broker: Server | None

    @property
    def environment(self) -> dict[str, str]:
        """The variables that tell child processes where the servers are."""
        return {"DATABASE_URL": self.database_url, "CELERY_BROKER_URL": self.broker_url}

    def stop(self) -> None:
        """Stop the servers that were started here and remove their data."""
        for server in (self.broker, self.postgres):
            if server is not None:
                server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def ensure_servers(directory: Path | None = None, *, durable: bool, preload: Path | None = None) -> Servers:
    """Take the servers that DATABASE_URL and CELERY_BROKER_URL name, and start those that are not named.

    ``preload`` is a library for a PostgreSQL that is started here.
    """
    database_url = os.environ.get("DATABASE_URL", "")
    broker_url = os.environ.get("CELERY_BROKER_URL", "")
    with ExitStack() as undo:
        postgres = None
        if not database_url:
            postgres = undo.enter_context(start_postgres(directory, durable=durable, preload=preload))
        broker = None if broker_url else undo.enter_context(start_broker(directory))
        undo.pop_all()
    return Servers(
        database_url=postgres.url if postgres else database_url,
        broker_url=broker.url if broker else broker_url,
        postgres=postgres,
        broker=broker,
    )
