"""Servers of a chaos run's own: they may be killed, frozen and started again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.chaos.disks import Disk, NoDisk
from benchmarks.chaos.plan import PAIRS
from benchmarks.chaos.standby import Pair
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

DATABASES = ("postgresql", "mariadb", "sqlite", "pgbouncer", "standby", "asynchronous-standby")
#: Those whose data can lie on a small disk of its own.
ON_A_DISK = frozenset({"postgresql", "mariadb", "pgbouncer"})
BROKERS = ("redis", "rabbitmq", "quorum")
#: Where Debian puts the programs of servers.
SYSTEM = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/lib/rabbitmq/bin"
#: An account that a read-only server refuses, as it does not refuse root.
ACCOUNT, NAME = "chaos", "chaos"
#: One that may still write, and makes the server read-only.
KEEPER = "keeper"


@dataclass(frozen=True)
class OwnServers(Servers):
    """The database (None for SQLite), the broker, and the pooler where there is one."""

    database: Server | Pair | None = None
    pooler: Server | None = None
    #: Whom an administrator of the broker is, in the words of rabbitmqctl.
    node: tuple[str, ...] = ()
    #: What the servers' data lies on, where it can be filled.
    database_disk: Disk | None = None
    broker_disk: Disk | None = None

    def stop(self) -> None:
        for server in (self.pooler, self.broker, self.database):
            if server is not None:
                server.stop()
        for disk in (self.database_disk, self.broker_disk):
            if disk is not None:
                disk.remove()


def start_servers(database: str, broker: str) -> OwnServers:
    """Start what a run needs, whatever the environment names."""
    with ExitStack() as undo:
        node: tuple[str, ...] = ()
        queue_disk = _disk("broker", undo) if broker == "redis" else None
        disk = _disk("database", undo) if database in ON_A_DISK else None
        place = disk.path if disk else None
        if broker != "redis":
            os.environ["CHAOS_QUEUES"] = broker
            queues, node = start_rabbitmq()
            undo.enter_context(queues)
        else:
            queues = undo.enter_context(start_broker(queue_disk.path if queue_disk else None))
        server: Server | Pair | None = None
        pooler = None
        if database == "sqlite":
            home = fresh_directory("chaos")
            url = f"sqlite:///{home / 'chaos.sqlite3'}"
        elif database == "mariadb":
            server = undo.enter_context(start_mariadb(place))
            url = server.url
        elif database in PAIRS:
            server = undo.enter_context(Pair(synchronous=database == "standby").start())
            url = server.url
        else:
            server = undo.enter_context(start_postgres(place, durable=False))
            url = server.url
        if database == "pgbouncer":
            pooler = undo.enter_context(start_pgbouncer(url, pool_size=20))
            url = pooler.url
        undo.pop_all()
    return OwnServers(url, queues.url, None, queues, server, pooler, node, disk, queue_disk)


def _disk(name: str, undo: ExitStack) -> Disk | None:
    """A disk that can be filled, where this machine allows one to be mounted."""
    with suppress(NoDisk):
        return undo.enter_context(Disk(name))
    return None


def start_mariadb(directory: Path | None = None) -> Server:
    """Start an empty MariaDB with a database and an account of a run's own, in the directory if given."""
    program = _program("mariadbd", "apt-get install mariadb-server")
    home = fresh_directory("mariadb", directory)
    try:
        data, port = owned_directory(home / "data"), free_port()
        words = ["--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal"]
        _make_mariadb(words, data)
        sql = home / "init.sql"
        sql.write_text(
            f"CREATE DATABASE IF NOT EXISTS {NAME} CHARACTER SET utf8mb4;\n"
            f"CREATE USER IF NOT EXISTS {ACCOUNT}@'127.0.0.1';\n"
            f"GRANT ALL ON {NAME}.* TO {ACCOUNT}@'127.0.0.1';\n"
            f"CREATE USER IF NOT EXISTS {KEEPER}@'127.0.0.1';\n"
            f"GRANT ALL ON *.* TO {KEEPER}@'127.0.0.1';\n"
        )
        sql.chmod(0o644)
        settings = {
            "datadir": data,
            "bind-address": "127.0.0.1",
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


def _make_mariadb(words: list[str], data: Path) -> None:
    program = _program("mariadb-install-db", "apt-get install mariadb-server")
    made = spawn([program, *words], cwd=data, output=subprocess.PIPE)
    said, _ = made.communicate()
    if made.returncode:
        raise ServerUnavailable(f"mariadb-install-db failed:\n{said.decode(errors='replace')}")


def start_rabbitmq() -> tuple[Server, tuple[str, ...]]:
    """Start an empty RabbitMQ node, and say how rabbitmqctl reaches it."""
    program = _program("rabbitmq-server", "apt-get install rabbitmq-server", first="/usr/lib/rabbitmq/bin")
    home = fresh_directory("rabbitmq")
    try:
        data, port, distribution = owned_directory(home / "data"), free_port(), free_port()
        node, cookie = f"chaos{os.getpid()}@localhost", os.urandom(12).hex()
        settings = home / "rabbitmq.conf"
        settings.write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\n")
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
