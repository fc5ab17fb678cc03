"""Worker processes of the contract's app."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

from celery import Celery
from redis import Redis

from tests.support.waiting import eventually
from tests.support.workers.journal import Journal
from tests.support.workers.processes import ROOT

QUIET = (
    "--without-mingle",
    "--without-gossip",
    "--without-heartbeat",
    "--loglevel",
    "INFO",
    "--concurrency",
    "2",
)


@dataclass
class Stage:
    """A queue, the notes of its workers, and an app that sends to it."""

    directory: Path
    broker_url: str

    @cached_property
    def prefix(self) -> str:
        """What our keys in the broker begin with."""
        return f"contract-{uuid4().hex}:"

    @cached_property
    def sender(self) -> Celery:
        """An app without tasks."""
        app = Celery("sender", broker=self.broker_url, set_as_current=False, fixups=[])
        app.conf.broker_transport_options = {"global_keyprefix": self.prefix}
        return app

    @cached_property
    def notes(self) -> Journal:
        """What the workers have seen."""
        return Journal(self.directory)

    def send(self, how: str, *, task: str = "contract.ending", **options: Any) -> str:
        """Send a call; its id."""
        headers = {"idempotency": {"how": how}}
        return str(self.sender.send_task(task, [how], headers=headers, **options).id)

    def waiting(self) -> int:
        """Count the messages that nobody has taken."""
        with Redis.from_url(self.broker_url) as broker:
            return int(broker.llen(f"{self.prefix}celery"))

    def is_empty(self) -> bool:
        """Whether every message was taken and acknowledged."""
        with Redis.from_url(self.broker_url) as broker:
            return not self.waiting() and not broker.hlen(f"{self.prefix}unacked")

    def wait_until_empty(self) -> None:
        """Wait until every message was taken and acknowledged."""
        eventually(self.is_empty, "every message is acknowledged")

    def starts(self, call: str) -> list[bool]:
        """For every start of a call whether it was another delivery."""
        return [entry["again"] for entry in self.notes.read("started", call)]

    @contextmanager
    def worker(self, name: str, environment: Mapping[str, str] | None = None) -> Iterator[WorkerProcess]:
        """A worker, not necessarily ready; killed at the end."""
        variables = {
            **{name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"},
            "CELERY_BROKER_URL": self.broker_url,
            "CONTRACT_PREFIX": self.prefix,
            "CONTRACT_DIRECTORY": str(self.directory),
            **(environment or {}),
        }
        log = self.directory / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "celery",
                    "-A",
                    "tests.processes.plain_celery.app",
                    "worker",
                    "-n",
                    name,
                    *QUIET,
                ],
                cwd=ROOT,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield WorkerProcess(process, log)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@dataclass
class WorkerProcess:
    """A running worker's parent."""

    process: subprocess.Popen[bytes]
    log: Path

    def text(self) -> str:
        """What it has logged."""
        return self.log.read_text(errors="replace")

    def wait_until_ready(self) -> None:
        """Wait until it takes messages."""
        eventually(lambda: " ready." in self.text() or self.process.poll() is not None, "ready", within=60)
        assert self.process.poll() is None, self.text()

    def wait(self) -> int:
        """Wait for its end; the exit code."""
        eventually(lambda: self.process.poll() is not None, "the worker has ended", within=60)
        return self.process.returncode


def dumped(value: object) -> object:
    """A value as JSON gives it back."""
    return json.loads(json.dumps(value))
