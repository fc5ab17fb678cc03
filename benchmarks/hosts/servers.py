"""PostgreSQL and Valkey in a network of their own, which hosts reach by an address of that network."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from urllib.parse import urlsplit

from benchmarks.hosts.network import CENTRE, NETWORK, isolate
from example_project.servers import Server, Servers, start_broker, start_postgres

LOOPBACK = "127.0.0.1"
#: Where a host's own loopback has the two, at a distance.
DATABASE_PORT, BROKER_PORT = 5432, 6379


@dataclass(frozen=True)
class FarServers(Servers):
    """Servers with the addresses by which hosts reach them, directly and at a distance."""

    @property
    def direct(self) -> dict[str, str]:
        """The variables for a host whose packets go to the servers themselves."""
        return {
            name: url.replace(f"@{LOOPBACK}", f"@{CENTRE}").replace(f"//{LOOPBACK}", f"//{CENTRE}")
            for name, url in self.environment.items()
        }

    @property
    def delayed(self) -> dict[str, str]:
        """The variables for a host that reaches them through its own loopback, where a process delays."""
        ports = (("DATABASE_URL", DATABASE_PORT), ("CELERY_BROKER_URL", BROKER_PORT))
        return {
            name: self.environment[name].replace(f":{urlsplit(self.environment[name]).port}", f":{port}")
            for name, port in ports
        }

    @property
    def places(self) -> list[str]:
        """The servers in the words of :mod:`benchmarks.hosts.delay`."""
        database, broker = (urlsplit(url).port for url in (self.database_url, self.broker_url))
        return [
            f"database={DATABASE_PORT}={CENTRE}:{database}",
            f"broker={BROKER_PORT}={CENTRE}:{broker}",
        ]


def start_far_servers() -> FarServers:
    """Start both, after this process has left for a network of its own. Raises LeftOut where it may not."""
    isolate()
    with ExitStack() as undo:
        postgres = undo.enter_context(start_postgres(durable=True, addresses=(LOOPBACK, CENTRE)))
        let_hosts_in(postgres)
        broker = undo.enter_context(start_broker(addresses=(LOOPBACK, CENTRE)))
        undo.pop_all()
    return FarServers(postgres.url, broker.url, postgres, broker)


def let_hosts_in(postgres: Server) -> None:
    """Let a server, and every copy of its data, take connections of the hosts' network."""
    with (postgres.log.parent / "data" / "pg_hba.conf").open("a") as file:
        file.write(f"host all all {NETWORK} trust\n")
    postgres.restart()
