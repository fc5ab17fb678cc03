"""Plain Celery tasks that end in every way that matters here, and a request class that takes notes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from billiard.common import terminate_handler_fired  # type: ignore[attr-defined]  # newer than its stubs
from celery import Task
from celery.exceptions import Ignore, Reject
from celery.worker.request import Request
from redis import Redis

from tests.processes.plain_celery.app import app
from tests.processes.plain_celery.notes import note


class WatchedRequest(Request):
    """What the parent is told of a call that failed, and where its message is at that moment."""

    def on_failure(self, exc_info: Any, *args: Any, **kwargs: Any) -> Any:
        """Take notes, then go on."""
        error = getattr(exc_info.exception, "exc", exc_info.exception)
        prefix = os.environ["CONTRACT_PREFIX"]
        with Redis.from_url(os.environ["CELERY_BROKER_URL"]) as broker:
            waiting, unacknowledged = broker.llen(f"{prefix}celery"), broker.hlen(f"{prefix}unacked")
        note(
            "request failed",
            self.id,
            error=type(error).__name__,
            waiting=waiting,
            unacknowledged=unacknowledged,
            child=self.worker_pid,
            child_lives=_lives(self.worker_pid),
        )
        return super().on_failure(exc_info, *args, **kwargs)


def _lives(pid: Any) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Watched(Task):  # type: ignore[type-arg]  # generic in the stubs only
    """A task that is acknowledged late."""

    Request = "tests.processes.plain_celery.tasks:WatchedRequest"
    acks_late = True
    reject_on_worker_lost = True

    def on_failure(self, exc: BaseException, task_id: str, *_args: Any) -> None:
        """Take a note."""
        note("task failed", task_id, error=type(exc).__name__)


@app.task(base=Watched, bind=True, name="contract.ending")
def ending(self: Any, how: str) -> None:
    """End as told, unless this is another delivery."""
    again = bool(self.request.delivery_info["redelivered"])
    note("started", self.request.id, again=again)
    if not again:
        _end(how, self.request.id)


@app.task(base=Watched, bind=True, name="contract.unacked_on_timeout", acks_on_timeout=False)
def unacked_on_timeout(self: Any, how: str) -> None:
    """The same, of which a hard time limit acknowledges nothing."""
    note("started", self.request.id, again=bool(self.request.delivery_info["redelivered"]))
    if not self.request.delivery_info["redelivered"]:
        _end(how, self.request.id)


# The name of that option before Celery 5.7.
unacked_on_timeout.acks_on_failure_or_timeout = False


def _end(how: str, task_id: str) -> None:
    errors = {
        "memory": MemoryError(),
        "ignore": Ignore(),
        "reject": Reject(how, requeue=False),
        "requeue": Reject(how, requeue=True),
        "raise": ValueError(how),
        "exit": SystemExit(3),
    }
    if how in errors:
        raise errors[how]
    match how:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            _be_stopped(task_id)
        case "last":
            time.sleep(60)


def _be_stopped(task_id: str) -> None:
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
    except SystemExit:
        note("stopped", task_id, told=terminate_handler_fired())
        raise
