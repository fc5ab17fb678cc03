"""The processes of the project: started in their own groups, logged to files, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from example_project.servers.process import children

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent.parent
STOP_SECONDS = 8.0
TAIL = 30

# Ends the group when the demonstration is gone, however it died: then `read` comes to the end of the pipe.
WATCHDOG = 'read -r _; kill -s KILL -- "-$1"'


class Program:
    """One ``python -m ...`` process with what it starts."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        logs: Path,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.name = name
        self.log = logs / f"{name}.log"
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                cwd=ROOT,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", WATCHDOG, "watchdog", str(self.pid)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process id, which is also the group's."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        if self._process.returncode is not None or not hasattr(os, "waitid"):
            return self._process.poll() is None
        # Only a look: until kill() collects the process, its number stays taken, and so does the group's.
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def children(self) -> list[int]:
        """List the processes that it started, e.g. the pool of a worker."""
        return children(self.pid)

    def kill(self) -> None:
        """End the whole group with SIGKILL, as the loss of a machine would."""
        # The watchdog first: afterwards the number of the group may belong to somebody else.
        self._watchdog.kill()
        self._watchdog.wait()
        if self._watchdog.stdin is not None:
            self._watchdog.stdin.close()
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def ask_to_stop(self) -> None:
        """Ask for an orderly end, without waiting for it."""
        if self.running:
            self._process.send_signal(signal.SIGTERM)

    def last_lines(self) -> list[str]:
        """Return the end of its log."""
        return self.log.read_text(errors="replace").splitlines()[-TAIL:]


def stop_all(programs: Sequence[Program]) -> None:
    """Ask all to stop at once, and kill what does not within a few seconds."""
    for program in programs:
        program.ask_to_stop()
    wait_until(lambda: not any(program.running for program in programs), seconds=STOP_SECONDS)
    for program in programs:
        program.kill()


def wait_until(condition: Callable[[], bool], *, seconds: float, every: float = 0.1) -> bool:
    """Ask ``condition`` again and again until it holds or the time is over, and return whether it holds."""
    deadline = time.monotonic() + seconds
    while not (held := condition()) and time.monotonic() < deadline:
        time.sleep(every)
    return held
