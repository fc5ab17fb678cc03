"""Servers of a chaos run's own: they may be killed, frozen and started again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.chaos.disks import Disk, NoDisk
from benchmarks.chaos.plan import PAIRS
from benchmarks.chaos.standby import Pair
from benchmarks.hosts.network import CENTRE, EVERY_HOST
from benchmarks.hosts.servers import LOOPBACK, let_hosts_in
from example_project.servers import (
    Server,
    Servers,
    ServerUnavailable,
    fresh_directory,
    start_broker,
    start_postgres,
)
from example_project.servers.directories import owned_directory
from example_project.servers.pgbouncer import start_pgbouncer
from example_project.servers.process import free_port, spawn

#: How often a host of this network sends an answer again; MariaDB holds the locks of a lost one so long. As
#: docs/explanation/failures.md wants it. The network is the run's own.
RETRIES = Path("/proc/sys/net/ipv4/tcp_retries2")
DATABASES = ("postgresql", "mariadb", "sqlite", "pgbouncer", "standby", "asynchronous-standby")
BROKERS = ("redis", "rabbitmq", "quorum")
#: Where Debian puts the programs of servers.
SYSTEM = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/lib/rabbitmq/bin"
#: An account that a read-only server refuses, as it does not refuse root.
ACCOUNT, NAME = "chaos", "chaos"
#: Where Erlang's nodes ask for each other, and the seconds between two signs of life of RabbitMQ's clients.
EPMD, HEARTBEAT = 4369, 10
#: One that may still write, and makes the server read-only.
KEEPER = "keeper"


@dataclass(frozen=True)
class OwnServers(Servers):
    """The database (None for SQLite), the broker, and the pooler where there is one."""

    database: Server | Pair | None = None
    pooler: Server | None = None
    #: Whom an administrator of the broker is, in the words of rabbitmqctl.
    node: tuple[str, ...] = ()
    #: What tells nodes of RabbitMQ where they are, where it is the run's own.
    names: Server | None = None
    #: What the servers' data lies on, where it can be filled.
    database_disk: Disk | None = None
    broker_disk: Disk | None = None
    #: Why no other host can reach them; empty where hosts of the run's own can.
    alone: str = "these servers listen on this host alone"

    def stop(self) -> None:
        for server in (self.pooler, self.broker, self.database, self.names):
            if server is not None:
                server.stop()
        for disk in (self.database_disk, self.broker_disk):
            if disk is not None:
                disk.remove()


def start_servers(database: str, broker: str, alone: str) -> OwnServers:
    """Start what a run needs, whatever the environment names.

    Hosts of the run's own reach them too, unless ``alone`` says why there are none.
    """
    addresses = (LOOPBACK,) if alone else (LOOPBACK, CENTRE)
    with ExitStack() as undo:
        parts = {**_broker(broker, addresses, undo), **_database(database, addresses, undo)}
        undo.pop_all()
    return OwnServers(postgres=None, alone=alone, **parts)


def _broker(broker: str, addresses: Sequence[str], undo: ExitStack) -> dict[str, Any]:
    if broker == "redis":
        disk = _disk("broker", undo)
        server = undo.enter_context(start_broker(disk.path if disk else None, addresses=addresses))
        return {"broker_url": server.url, "broker": server, "broker_disk": disk}
    os.environ["CHAOS_QUEUES"] = broker
    names = undo.enter_context(start_epmd()) if CENTRE in addresses else None
    server, node = start_rabbitmq(addresses)
    undo.enter_context(server)
    return {"broker_url": server.url, "broker": server, "node": node, "names": names}


def _database(database: str, addresses: Sequence[str], undo: ExitStack) -> dict[str, Any]:
    if database == "sqlite":
        return {"database_url": f"sqlite:///{fresh_directory('chaos') / 'chaos.sqlite3'}"}
    if database in PAIRS:
        pair = undo.enter_context(Pair(synchronous=database == "standby", addresses=addresses).start())
        return {"database_url": pair.url, "database": pair}
    disk = _disk("database", undo)
    place = disk.path if disk else None
    if database == "mariadb":
        if CENTRE in addresses:
            RETRIES.write_text("6")
        server = undo.enter_context(start_mariadb(place, addresses))
        return {"database_url": server.url, "database": server, "database_disk": disk}
    server = undo.enter_context(start_postgres(place, durable=False, addresses=addresses))
    if CENTRE in addresses:
        let_hosts_in(server)
    found = {"database_url": server.url, "database": server, "database_disk": disk}
    if database == "pgbouncer":
        pooler = undo.enter_context(start_pgbouncer(server.url, pool_size=20, addresses=addresses))
        found |= {"database_url": pooler.url, "pooler": pooler}
    return found


def _disk(name: str, undo: ExitStack) -> Disk | None:
    """A disk that can be filled, where this machine allows one to be mounted."""
    with suppress(NoDisk):
        return undo.enter_context(Disk(name))
    return None


def start_mariadb(directory: Path | None = None, addresses: Sequence[str] = (LOOPBACK,)) -> Server:
    """Start an empty MariaDB with a database and an account of a run's own, in the directory if given.

    It asks a silent client for a sign of life as docs/explanation/failures.md wants it.
    """
    program = _program("mariadbd", "apt-get install mariadb-server")
    home = fresh_directory("mariadb", directory)
    try:
        data, port = owned_directory(home / "data"), free_port()
        words = ["--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal"]
        _make_mariadb(words, data)
        sql = _accounts(home)
        settings = {
            "datadir": data,
            "bind-address": ",".join(addresses),
            "tcp-keepalive-time": 8,
            "tcp-keepalive-interval": 3,
            "tcp-keepalive-probes": 3,
            "port": port,
            "socket": home / "data" / "socket",
            "pid-file": home / "data" / "pid",
            "init-file": sql,
            "skip-name-resolve": 1,
            "innodb-flush-log-at-trx-commit": 2,  # a killed server still has every commit
            "max-connections": 200,
            "transaction-isolation": "READ-COMMITTED",
        }
        command = [program, "--no-defaults", *(f"--{name}={value}" for name, value in settings.items())]
        url = f"mysql://{ACCOUNT}@127.0.0.1:{port}/{NAME}"
        return Server(
            url, command, home=home, ready=partial(_listens, port), halt_signal=signal.SIGTERM
        ).start()
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise


def _accounts(home: Path) -> Path:
    """Write the SQL of the database and of the accounts that a run needs; the file."""
    accounts = (
        (f"{ACCOUNT}@'{LOOPBACK}'", NAME),
        (f"{ACCOUNT}@'{EVERY_HOST}'", NAME),
        (f"{KEEPER}@'{LOOPBACK}'", "*"),
    )
    made = "".join(
        f"CREATE USER IF NOT EXISTS {account};\nGRANT ALL ON {where}.* TO {account};\n"
        for account, where in accounts
    )
    sql = home / "init.sql"
    sql.write_text(f"CREATE DATABASE IF NOT EXISTS {NAME} CHARACTER SET utf8mb4;\n{made}")
    sql.chmod(0o644)
    return sql


def _make_mariadb(words: list[str], data: Path) -> None:
    program = _program("mariadb-install-db", "apt-get install mariadb-server")
    made = spawn([program, *words], cwd=data, output=subprocess.PIPE)
    said, _ = made.communicate()
    if made.returncode:
        raise ServerUnavailable(f"mariadb-install-db failed:\n{said.decode(errors='replace')}")


def start_epmd() -> Server:
    """Start what a node of RabbitMQ starts otherwise, and leaves behind, in a network that is to end."""
    program = _program("epmd", "apt-get install rabbitmq-server")
    home = fresh_directory("epmd")
    return Server("", [program], home=home, ready=partial(_listens, EPMD), halt_signal=signal.SIGTERM).start()


def start_rabbitmq(addresses: Sequence[str] = (LOOPBACK,)) -> tuple[Server, tuple[str, ...]]:
    """Start an empty RabbitMQ node, and say how rabbitmqctl reaches it."""
    program = _program("rabbitmq-server", "apt-get install rabbitmq-server", first="/usr/lib/rabbitmq/bin")
    home = fresh_directory("rabbitmq")
    try:
        data, port, distribution = owned_directory(home / "data"), free_port(), free_port()
        node, cookie = f"chaos{os.getpid()}@localhost", os.urandom(12).hex()
        settings = home / "rabbitmq.conf"
        settings.write_text(_rabbitmq_settings(addresses, port))
        settings.chmod(0o644)
        variables = {
            "HOME": data,
            "RABBITMQ_NODENAME": node,
            "RABBITMQ_CONFIG_FILE": settings,
            "RABBITMQ_DIST_PORT": distribution,
            "RABBITMQ_MNESIA_BASE": data,
            "RABBITMQ_LOG_BASE": data,
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PLUGINS_EXPAND_DIR": data / "plugins",
            "RABBITMQ_ENABLED_PLUGINS_FILE": data / "enabled_plugins",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_ALLOW_INPUT": 1,  # the node takes the place of its shell, so that a signal reaches it
            "RABBITMQ_SERVER_START_ARGS": f"-noinput -setcookie {cookie}",
        }
        command = ["/usr/bin/env", *(f"{name}={value}" for name, value in variables.items()), program]
        server = Server(
            f"amqp://guest:guest@127.0.0.1:{port}//",
            command,
            home=home,
            ready=partial(_answers, port),
            halt_signal=signal.SIGTERM,
        )
        return server.start(), ("-n", node, "--erlang-cookie", cookie)
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise


def _rabbitmq_settings(addresses: Sequence[str], port: int) -> str:
    """What the node reads; a client that is silent for twice the heartbeat is gone."""
    listeners = [f"listeners.tcp.{number} = {each}:{port}" for number, each in enumerate(addresses, 1)]
    if len(addresses) > 1:
        listeners += ["loopback_users = none", f"heartbeat = {HEARTBEAT}"]
    return "\n".join([*listeners, ""])


def rabbitmqctl(node: tuple[str, ...], *words: str) -> None:
    """Do something as the node's administrator; raises CalledProcessError where it is refused."""
    program = _program("rabbitmqctl", "apt-get install rabbitmq-server")
    subprocess.run([program, "--quiet", *node, *words], check=True, capture_output=True, timeout=60)


def _program(name: str, remedy: str, *, first: str = "") -> str:
    path = ":".join(filter(None, [first, os.environ.get("PATH", os.defpath), SYSTEM]))
    found = shutil.which(name, path=path)
    if found is None:
        raise ServerUnavailable(f"No {name} found: {remedy}")
    return str(Path(found))


def _listens(port: int, _pid: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _answers(port: int, _pid: int) -> bool:
    """Whether an AMQP server answers its protocol's greeting."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as client:
        client.settimeout(2)
        client.sendall(b"AMQP\x00\x00\x09\x01")
        return bool(client.recv(1))
    return False
