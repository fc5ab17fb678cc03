"""Writes every 10 seconds, from the worker's parent, that the worker lives and which queues it consumes.

People read it; nothing waits for it. A ledger that is slow or away costs the worker nothing but a log line.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ..errors.stopping import is_consuming
from ..ledger.owner import instance
from ..ledger.presence import Presence
from ..ledger.stores import LedgerStore
from .breaker import Kept
from .canary import queues_of

logger = logging.getLogger("django_idempotent_tasks")

#: Seconds between two writes.
EVERY = 10.0
#: Seconds that the end of a worker waits for a write that goes on.
PATIENCE = 3.0
#: Characters of a host's name, and of what a pool is called.
_NAME, _POOL = 255, 80
#: What people call the pools whose modules have other names.
_POOLS = {"thread": "threads"}

own = Kept()
os.register_at_fork(before=own.before_fork, after_in_parent=own.after_fork, after_in_child=own.after_fork)


class Reporter:
    """A thread of the worker's parent, which no pool child has; each write is bounded and on one connection.

    A thread and no timer of the event loop: the loop of a solo worker stands still while a body runs.
    """

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._instance = instance()
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._is_written = False
        self._thread = threading.Thread(target=self._run, name="idempotent-presence", daemon=True)

    def start(self) -> None:
        """Start the thread, which needs no database yet."""
        own.begin()
        self._thread.start()

    def stop(self) -> None:
        """End the thread and note the worker's end, where the ledger has answered lately."""
        self._ended.set()
        self._thread.join(PATIENCE)
        if self._is_written and not self._thread.is_alive():
            self._write(lambda store: store.worker_stopped(self._instance))
        own.end()

    def _run(self) -> None:
        while True:
            self._write(lambda store: store.note_worker(self._presence()))
            if self._ended.wait(EVERY):
                return

    def _write(self, work: Callable[[LedgerStore], None]) -> None:
        try:
            own.use(work)
        except Exception as error:  # noqa: BLE001  the worker must go on whatever this raises
            level = logging.WARNING if self._is_written else logging.INFO
            logger.log(level, "The worker could not write to the ledger that it lives: %r", error)
            self._is_written = False
        else:
            self._is_written = True

    def _presence(self) -> Presence:
        consumer = self._consumer
        pool, tasks = consumer.pool, list(consumer.app.tasks.items())
        guarded = {name for name, each in tasks if getattr(each, "idempotency_guarded", False)}
        return Presence(
            instance=self._instance,
            name=str(consumer.hostname)[:_NAME],
            host=socket.gethostname()[:_NAME],
            pid=os.getpid(),
            pool=_called(pool),
            concurrency=int(getattr(pool, "num_processes", 0) or 0),
            queues=tuple(sorted(queues_of(consumer))) if is_consuming() else (),
            tasks=tuple(sorted(guarded)),
            version=_version(),
            age=time.monotonic() - self._began,
        )


def _called(pool: Any) -> str:
    """What a pool is called on Celery's command line, or its class where it is not one of Celery's."""
    home, _dot, module = type(pool).__module__.rpartition(".")
    own = f"{type(pool).__module__}:{type(pool).__name__}"
    return (_POOLS.get(module, module) if home == "celery.concurrency" else own)[:_POOL]


def _version() -> str:
    try:
        return version("django-idempotent-tasks")[:40]
    except PackageNotFoundError:  # run from a checkout that is not installed
        return ""
