"""The guarded tasks of a host that is cut off: each kind of claim, held inside its body where asked for."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import connection

from benchmarks.chaos.tasks import ask, guarded, write

#: Where bodies note what they do, and are told that the host is back.
DIRECTORY = Path(os.environ.get("HOSTS_DIRECTORY", "."))
BACK = "back"


def note(event: str, key: str) -> None:
    """Write down what a body does on this host now."""
    with (DIRECTORY / "journal").open("a") as file:
        file.write(f"{json.dumps([event, key, socket.gethostname(), time.time()])}\n")


def hold(key: str, seconds: float) -> None:
    """Stay in the body: where seconds are negative, its first start stays until the host is back."""
    if seconds >= 0:
        time.sleep(seconds)
        return
    try:
        (DIRECTORY / f"{key}.held").touch(exist_ok=False)
    except FileExistsError:
        return
    while not (DIRECTORY / BACK).exists():
        time.sleep(0.05)


@contextmanager
def noted(key: str) -> Iterator[None]:
    """Note how an end of this body is taken: done, or refused with which error."""
    try:
        yield
    except Exception as error:
        note(f"refused: {type(error).__name__}", key)
        raise
    note("done", key)


def _complete(self: Any, key: str, seconds: float) -> str:
    note("begun", key)
    hold(key, seconds)
    with noted(key), self.idempotency.complete():
        write(self, key)
    return socket.gethostname()


def _write(self: Any, key: str, seconds: float) -> str:
    note("begun", key)
    write(self, key)
    hold(key, seconds)
    with noted(key), connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return socket.gethostname()


@guarded(name="benchmarks.hosts.tasks.returning")
def returning(self: Any, key: str, seconds: float) -> str:
    """Ask a provider, and complete by return."""
    note("begun", key)
    ask(key, self.idempotency.downstream_key("charge"))
    hold(key, seconds)
    note(f"returns, {'lost' if self.idempotency.lost else 'not lost yet'}", key)
    return socket.gethostname()


completing = guarded(name="benchmarks.hosts.tasks.completing")(_complete)
committing = guarded(name="benchmarks.hosts.tasks.committing", mode="atomic")(_write)
reserved = guarded(name="benchmarks.hosts.tasks.reserved", reserve=True)(_complete)
reserved_atomically = guarded(name="benchmarks.hosts.tasks.reserved_atomically", mode="atomic", reserve=True)(
    _write
)
