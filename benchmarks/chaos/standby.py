"""PostgreSQL with a standby: two servers, of which one streams what the other one commits, and a failover.

Clients name both and take the primary (``target_session_attrs=primary``), as a project may: nothing stands
between them and the servers that would have to be moved, and would be a part of its own to fail.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psycopg

from benchmarks.hosts.servers import LOOPBACK, let_hosts_in
from example_project.servers import Server, ServerUnavailable, fresh_directory, start_postgres
from example_project.servers.directories import owned_directory
from example_project.servers.postgres import binaries_for, server_on
from example_project.servers.process import free_port, spawn

#: How the primary calls its standby, also where it waits for it.
NAME = "standby"
#: Seconds within which a standby must stream, and a promoted server must write.
PATIENCE = 60.0
STREAMS = "SELECT count(*) FROM pg_stat_replication WHERE application_name = %s AND state = 'streaming'"
#: As above, and a commit waits for it.
IS_WAITED_FOR = f"{STREAMS} AND sync_state IN ('sync', 'quorum')"

Rest = Callable[[float], None]


@dataclass
class Pair:
    """A primary and its standby. ``synchronous``: a commit has its answer when both have it."""

    synchronous: bool
    addresses: Sequence[str] = (LOOPBACK,)
    primary: Server = field(init=False)
    standby: Server = field(init=False)
    _ports: tuple[int, int] = field(init=False)

    def start(self) -> Self:
        """Start both."""
        self.primary = start_postgres(durable=False, addresses=self.addresses)
        try:
            if len(self.addresses) > 1:
                let_hosts_in(self.primary)
            self._ports = port_of(self.primary), free_port()
            self._add_standby(self._ports[1], time.sleep)
        except BaseException:
            self.primary.stop()
            raise
        return self

    @property
    def url(self) -> str:
        """Names both; a client takes the one that is the primary."""
        hosts, ports = ",".join(["127.0.0.1"] * 2), ",".join(map(str, self._ports))
        return f"postgresql://postgres@/postgres?host={hosts}&port={ports}&target_session_attrs=primary"

    @property
    def pid(self) -> int:
        """The process id of the primary."""
        return self.primary.pid

    def kill(self) -> None:
        """Kill the primary."""
        self.primary.kill()

    def restart(self) -> None:
        """Start the primary again; the standby follows it as before."""
        self.primary.restart()
        self._wait_for_standby(time.sleep)

    def lose_standby(self, seconds: float, rest: Rest) -> None:
        """Kill the standby; it is away for so long, and commits wait where it is synchronous."""
        self.standby.kill()
        rest(seconds)
        self.standby.start()
        self._wait_for_standby(rest)

    def fail_over(self, seconds: float, rest: Rest, *, behind: bool) -> None:
        """Kill the primary for good, promote the standby after so long, and give that one a standby.

        ``behind``: the standby is away for so long, comes back when the primary is dead, and is promoted.
        """
        if behind:
            self.standby.kill()
            rest(seconds)
            self.primary.kill()
            self.standby.start()
        else:
            self.primary.kill()
            rest(seconds)
        promote(self.standby, rest)
        dead, self.primary = self.primary, self.standby
        dead.stop()
        self._add_standby(port_of(dead), rest)

    def stop(self) -> None:
        """Stop both."""
        self.standby.stop()
        self.primary.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def _add_standby(self, port: int, rest: Rest) -> None:
        self.standby = copy_of(self.primary, port, rest, self.addresses).start()
        if self.synchronous:
            ask(self.primary, f"ALTER SYSTEM SET synchronous_standby_names = {NAME}")
            ask(self.primary, "SELECT pg_reload_conf()")
        self._wait_for_standby(rest)

    def _wait_for_standby(self, rest: Rest) -> None:
        question = IS_WAITED_FOR if self.synchronous else STREAMS
        wait_until(lambda: ask(self.primary, question, NAME), rest, "The standby does not stream.")


def promote(standby: Server, rest: Rest) -> None:
    """Let a standby be the primary. No statement waits for it: it would be in the way of what is replayed."""
    ask(standby, "SELECT pg_promote(false)")
    wait_until(lambda: not ask(standby, "SELECT pg_is_in_recovery()"), rest, "The standby is not promoted.")


def wait_until(holds: Callable[[], object], rest: Rest, otherwise: str) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise ServerUnavailable(otherwise)
        rest(0.1)


def copy_of(primary: Server, port: int, rest: Rest, addresses: Sequence[str]) -> Server:
    """A server on a copy of the primary's data, which is its standby once it is started."""
    home = fresh_directory("standby")
    try:
        data, binaries = owned_directory(home / "data"), binaries_for(home)
        source = f"{primary.url}?application_name={NAME}"
        words = ["--pgdata", str(data), "--dbname", source, "--write-recovery-conf", "--wal-method=stream"]
        words += ["--checkpoint=fast", "--no-sync", "--create-slot", f"--slot={NAME}"]
        _copy([str(binaries / "pg_basebackup"), *words], data, rest)
        with (data / "postgresql.auto.conf").open("a") as settings:
            settings.write("wal_retrieve_retry_interval = 200\n")
        return server_on(binaries, data, port, addresses=addresses, durable=False)
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise


def _copy(command: list[str], data: Path, rest: Rest) -> None:
    log = data.with_name("copying")
    with log.open("wb") as output:
        copying = spawn(command, cwd=data.parent, output=output.fileno())
        while copying.poll() is None:
            rest(0.05)
    if copying.returncode:
        raise ServerUnavailable(f"pg_basebackup failed: {log.read_text()}")


def ask(server: Server, sql: str, *parameters: str) -> Any:
    """The first value that a server answers, on a connection of its own."""
    with psycopg.connect(server.url, autocommit=True, connect_timeout=10) as connection:
        found = connection.execute(sql.encode(), parameters)
        row = found.fetchone() if found.description else None
        return row[0] if row else None


def port_of(server: Server) -> int:
    """Where a server listens."""
    return int(server.url.rpartition(":")[2].partition("/")[0])
