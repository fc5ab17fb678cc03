"""Real worker processes: start, pause, kill and stop them; none outlives the tests."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

from example_project.servers.process import children, send_signal
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
#: Seconds until a worker must be ready, on a machine that is busy.
START = 60.0
#: Seconds for the end of a worker that is told to end. Where its parent reads no more what a child of its
#: pool has said of a message, that child waits for 30 s before it ends (billiard).
END = 45.0


#: No option of Celery's: there it is the default.
MINGLES = "--with-mingle"


class Worker:
    """One ``celery worker`` with its pool children, in a process group of its own."""

    #: Those that were launched and not killed, for the report of a failed test.
    living: ClassVar[list[Worker]] = []

    def __init__(self, name: str, log: Path, *arguments: str, environment: Mapping[str, str]) -> None:
        self.name = name
        self.log = log
        #: The module with the Celery app.
        self.app = "tests.sample"
        self._arguments = arguments
        self._environment = dict(environment)
        self._begin = 0
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self) -> Self:
        """Start it without waiting."""
        self.living.append(self)
        self._begin = len(self.text())
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                cwd=ROOT,
                env={**os.environ, "PYTHONFAULTHANDLER": "1", **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509  no thread of ours holds a lock here
            )
        return self

    def command(self) -> list[str]:
        """The command line."""
        return worker_command(self.name, *self._arguments, app=self.app)

    @property
    def environment(self) -> dict[str, str]:
        """What differs from this process's environment."""
        return dict(self._environment)

    def start(self) -> Self:
        """Start it and wait until it takes messages."""
        self.launch().wait_until_ready()
        return self

    def wait_until_ready(self) -> None:
        """Wait until a launched worker takes messages."""
        eventually(lambda: self._is_ready or not self.is_alive, f"{self.name} is ready", within=START)
        assert self.is_alive, f"{self.name} did not start:\n{self.tail()}"

    @property
    def _is_ready(self) -> bool:
        return " ready." in self.text()[self._begin :]

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The parent process."""
        assert self._process is not None, f"{self.name} was not started"
        return self._process

    @property
    def is_alive(self) -> bool:
        """Whether the parent process runs."""
        return self._process is not None and self._process.poll() is None

    def children(self) -> list[int]:
        """List the pool's processes."""
        return children(self.process.pid)

    def terminate(self) -> None:
        """Ask for a warm shutdown, as an init system does."""
        self.process.send_signal(signal.SIGTERM)

    def wait(self, *, within: float = END) -> int:
        """Wait for the end; the exit code."""
        eventually(lambda: not self.is_alive, f"{self.name} has ended", within=within)
        return self.process.returncode

    def kill(self) -> None:
        """End parent and children at once with SIGKILL, as when the host dies. Does no harm twice."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self.living[:] = [worker for worker in self.living if worker is not self]

    def resume(self) -> None:
        """Let every paused process of it go on."""
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGCONT)

    def text(self) -> str:
        """Everything that it has logged."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def tail(self, lines: int = 40) -> str:
        """The end of its log."""
        return "\n".join(self.text().splitlines()[-lines:])

    def last_words(self) -> str:
        """The end of its log, where its children say in which line they were; they do not live to do more."""
        asked = self.children() if self.is_alive else []
        for pid in asked:
            send_signal(pid, signal.SIGABRT)
        with contextlib.suppress(AssertionError):
            eventually(lambda: not set(asked) & set(self.children()), "its children have spoken", within=5)
        return self.tail(40 + 40 * len(asked))

    def wait_for_log(self, words: str, *, within: float = 30.0) -> None:
        """Wait until it has logged these words."""
        eventually(lambda: words in self.text(), f"{self.name} logs {words!r}", within=within)


def worker_command(name: str, *arguments: str, app: str = "tests.sample") -> list[str]:
    """The command line of a worker of the tests' app, or of another one; ``MINGLES`` lets it mingle."""
    quiet = ["--without-mingle", "--without-gossip", "--without-heartbeat", "--loglevel", "INFO"]
    if MINGLES in arguments:
        arguments = tuple(each for each in arguments if each != MINGLES)
        quiet.remove("--without-mingle")
    worker = (sys.executable, "-m", "celery", "-A", app, "worker", "--hostname", f"{name}@tests")
    return [*worker, *quiet, *(arguments or ("--concurrency", "1"))]


def pause(pid: int) -> None:
    """Stop a process as a debugger or a suspended machine does."""
    send_signal(pid, signal.SIGSTOP)


def resume(pid: int) -> None:
    """Let a paused process go on."""
    send_signal(pid, signal.SIGCONT)


def kill(pid: int) -> None:
    """End a process as the kernel's out-of-memory killer does."""
    send_signal(pid, signal.SIGKILL)


def _die_with_parent() -> None:
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
