"""PgBouncer in transaction mode in front of a PostgreSQL server, on a port of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import unquote, urlsplit, urlunsplit

from example_project.servers.directories import ServerUnavailable, fresh_directory
from example_project.servers.process import Server, free_port

#: Where Debian puts it, which is not on everybody's PATH.
SYSTEM = "/usr/sbin:/usr/local/sbin"

#: Few, so that clients have to share: whoever counts on his own server process has soon lost it.
POOL_SIZE = 3

CONFIGURATION = """
[databases]
* = host={host} port={port} user={user}{password}

[pgbouncer]
listen_addr = {addresses}
listen_port = {listen_port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 200
server_login_retry = 0.2
server_round_robin = 1
log_pooler_errors = 1
"""

#: For clients on other hosts: a silent one is asked for a sign of life, as docs/explanation/failures.md says.
KEEPALIVES = """\
tcp_keepidle = 8
tcp_keepintvl = 3
tcp_keepcnt = 3
tcp_user_timeout = 17000
"""


def find_pgbouncer() -> str | None:
    """The program's path, if it is installed."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:{SYSTEM}")


def start_pgbouncer(
    url: str, *, pool_size: int = POOL_SIZE, addresses: Sequence[str] = ("127.0.0.1",)
) -> Server:
    """Start one in front of the server of ``url``, which reaches the same database through it.

    It listens on these addresses.
    """
    program, port = find_pgbouncer(), free_port()
    if program is None:
        message = "No PgBouncer found: apt-get install pgbouncer"
        raise ServerUnavailable(message)
    home = fresh_directory("pgbouncer")
    settings = home / "pgbouncer.ini"
    settings.write_text(_configuration(url, port, pool_size, addresses))
    settings.chmod(0o644)  # in a directory that only the servers' account and we may enter
    return Server(
        behind(url, port),
        [program, str(settings)],
        home=home,
        ready=lambda _pid: _listens(port),
        halt_signal=signal.SIGTERM,
    ).start()


def behind(url: str, port: int) -> str:
    """The URL of the same database through the PgBouncer on this port."""
    parts = urlsplit(url)
    account = parts.netloc.rpartition("@")[0]
    return urlunsplit(parts._replace(netloc=f"{account}@127.0.0.1:{port}"))


def _configuration(url: str, port: int, pool_size: int, addresses: Sequence[str]) -> str:
    parts = urlsplit(url)
    password = unquote(parts.password or "")
    words = CONFIGURATION.format(
        host=parts.hostname,
        port=parts.port or 5432,
        user=unquote(parts.username or ""),
        password=f" password={password}" if password else "",
        listen_port=port,
        pool_size=pool_size,
        addresses=",".join(addresses),
    )
    return words if len(addresses) == 1 else words + KEEPALIVES


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
