"""One server process: ready when it answers, restarted on the same port, never outliving its owner."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from example_project.servers.directories import ServerUnavailable, server_account

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

START_SECONDS = 60.0
STOP_SECONDS = 20.0
POLL_SECONDS = 0.01

# Only the owner holds the other end of its standard input, so `read` returns when the owner is gone, however
# it died. Arguments: the server's pid, the signal that ends it without leftovers, the directory to remove.
WATCHDOG = """
read -r _
kill -s "$2" "$1" 2>/dev/null
tries=0
while kill -0 "$1" 2>/dev/null && [ "$tries" -lt 50 ]; do
    case $(cat "/proc/$1/stat" 2>/dev/null) in *") Z "*) break ;; esac
    sleep 0.1
    tries=$((tries + 1))
done
kill -s KILL "$1" 2>/dev/null
rm -rf -- "$3"
"""


class Server:
    """A running server with its own directory, which ``stop()`` removes. Also a context manager."""

    def __init__(
        self,
        url: str,
        command: Sequence[str],
        *,
        home: Path,
        ready: Callable[[int], bool],
        halt_signal: signal.Signals,
        watchdog_signal: str = "TERM",
    ) -> None:
        self.url = url
        self.log = home / "log"
        self._command = list(command)
        self._home = home
        self._ready = ready
        self._halt_signal = halt_signal
        self._watchdog_signal = watchdog_signal
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the server (PostgreSQL: of the postmaster)."""
        if self._process is None:
            message = f"{self.url} is not running"
            raise ServerUnavailable(message)
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start the server on its data and port, and return when it answers."""
        with self.log.open("ab") as log:
            self._process = spawn(self._command, cwd=self._home, output=log.fileno())
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", WATCHDOG, "watchdog", str(self.pid), self._watchdog_signal, str(self._home)],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Shut down in an orderly way and remove the data. Does no harm the second time."""
        self._halt()
        shutil.rmtree(self._home, ignore_errors=True)

    def kill(self) -> None:
        """End the server and its children with SIGKILL, like a crash; the data stays for ``restart()``."""
        if self._process is None:
            return
        if self._process.poll() is None:
            # Stopped first, so that it does not start another child while they are being counted.
            self._process.send_signal(signal.SIGSTOP)
            family = (self._process.pid, *children(self._process.pid))
            for pid in family:
                send_signal(pid, signal.SIGKILL)
        self._reap()

    def restart(self) -> None:
        """Start again with the same data on the same port, after an orderly stop where it still runs."""
        self._halt()
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _halt(self) -> None:
        if self._process is None:
            return
        self._process.send_signal(self._halt_signal)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        else:
            self._reap()

    def _reap(self) -> None:
        for process in (self._watchdog, self._process):
            if process is not None:
                process.kill()
                process.wait()
                if process.stdin is not None:
                    process.stdin.close()
        self._watchdog = self._process = None

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._ready(process.pid):
            if process.poll() is not None or time.monotonic() > deadline:
                lines = self.log.read_text(errors="replace").splitlines()
                message = "\n".join([f"{self._command[0]} did not start. The end of its log:", *lines[-20:]])
                raise ServerUnavailable(message)
            time.sleep(POLL_SECONDS)


def spawn(command: Sequence[str], *, cwd: Path, output: int) -> subprocess.Popen[bytes]:
    """Start a program under the servers' account, in its own session: Ctrl-C is for the owner alone."""
    account = server_account()
    return subprocess.Popen(
        command,
        cwd=cwd,
        # Nothing of the caller's: PGPORT, PGOPTIONS or a foreign LD_LIBRARY_PATH would change the server.
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        umask=0o077,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )


def free_port() -> int:
    """Find a free port on 127.0.0.1, below the range that outgoing connections take theirs from.

    In that range a client that keeps knocking at a stopped server can end up connected to itself, and
    the server cannot have its port back.
    """
    for port in random.SystemRandom().sample(range(15000, 32000), 200):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    message = "no free port on 127.0.0.1 among 200 tried"
    raise ServerUnavailable(message)


def children(pid: int) -> list[int]:
    """List the direct children of a process."""
    if Path("/proc/self/stat").exists():
        return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if _parent(entry) == pid]
    listing = subprocess.run(
        ["/bin/ps", "-A", "-o", "pid=,ppid="], stdout=subprocess.PIPE, text=True, check=True
    )
    pairs = (line.split() for line in listing.stdout.splitlines())
    return [int(child) for child, parent in pairs if int(parent) == pid]


def _parent(entry: Path) -> int:
    try:
        # After the command's name, which may hold anything, in parentheses: state, then parent.
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def send_signal(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may be gone already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
