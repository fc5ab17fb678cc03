"""Tasks that work on chunks of batches, and die or stand still where a test says."""

from __future__ import annotations

import os
import signal
from typing import Any

from celery.signals import worker_init

from django_idempotent_tasks import LeaseLost, TransientError, signals
from tests.sample.death import LEASE
from tests.sample.tasks import guarded, journal


def _reach(task: Any, record: Any, name: str, deadly: str) -> None:
    """In the first attempt at a chunk: end between the work for a record and its outcome."""
    now = task.idempotency
    if now.token != 1:
        return
    place = record.index - now.batch.offset
    if deadly == "each" and place == now.batch.offset // now.batch.size:
        os.kill(os.getpid(), signal.SIGKILL)
    if deadly == "stand still" and place == 1:
        journal().write("stands still", name, attempt=1)
        os.kill(os.getpid(), signal.SIGSTOP)
    if deadly == "retry" and place == 1:
        raise TransientError("later")


def _register(self: Any, records: list[Any], name: str, deadly: str = "") -> None:
    from tests.sample.models import Effect  # noqa: PLC0415  Celery may import this before the models

    now = self.idempotency
    journal().write("started", name, attempt=now.attempt, offset=now.batch.offset)
    try:
        for record in now.records(records):
            with record:
                Effect.objects.create(key=f"{name}-{record.value}", attempt=now.attempt, token=now.token)
                _reach(self, record, name, deadly)
    except LeaseLost:
        journal().write("refused", name, attempt=now.attempt)
        raise


_KEY: dict[str, Any] = {"key": "records", "max_retries": 2, "default_retry_delay": 0}
register = guarded(name="batching.register", lease=LEASE, **_KEY)(_register)
brief = guarded(name="batching.brief", lease=2, **_KEY)(_register)
last = guarded(name="batching.last", lease=LEASE, **_KEY)(_register)


@guarded(name="batching.finished", key="batch")
def finished(self: Any, batch: str, name: str) -> None:
    """Note that a batch has ended."""
    from tests.sample.models import Effect  # noqa: PLC0415  as above

    with self.idempotency.complete():
        Effect.objects.create(key=f"{name}-finished", attempt=1, token=0, note=batch)


def _die_after_the_commit(sender: str, **_facts: Any) -> None:
    """Die as soon as a chunk has ended, before its batch is let know of that."""
    if sender == last.name:
        os.kill(os.getpid(), signal.SIGKILL)


@worker_init.connect
def _listen(**_facts: Any) -> None:
    """In workers alone: who imports the tasks to send them has no receiver."""
    signals.key_completed.connect(_die_after_the_commit)
