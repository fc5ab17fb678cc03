"""The same business write under locks in Redis: the tutorials' SET NX, and two packages where they are."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

from celery import shared_task
from django.db import transaction
from redis import Redis

from ..machine.celery import BROKER, LOCK_SECONDS
from .plain import write_row

_KEY = ["batch", "number"]

_client: Any = Redis.from_url(BROKER)


@shared_task
def set_nx(batch: str, number: int, note: str) -> None:  # noqa: ARG001  see plain.write
    """Write one row under a lock for the time of the body; who finds it held skips."""
    lock = f"lock:{batch}:{number}"
    if not _client.set(lock, "1", nx=True, ex=LOCK_SECONDS):
        return
    try:
        with transaction.atomic():
            write_row(batch, number)
    finally:
        _client.delete(lock)


def _write(batch: str, number: int, note: str) -> None:  # noqa: ARG001
    """Write one row; the lock was set where the call was sent, and is deleted after this."""
    with transaction.atomic():
        write_row(batch, number)


def _peer(package: str, base: str, **options: Any) -> None:
    with suppress(ImportError):
        kind: Any = getattr(import_module(package), base)
        make: Any = partial(shared_task, base=kind, name=f"benchmarks.throughput.peers.{package}")
        make(**options)(_write)


_peer("celery_once", "QueueOnce", once={"graceful": True, "keys": _KEY})
_peer("celery_singleton", "Singleton", unique_on=_KEY, lock_expiry=LOCK_SECONDS)
