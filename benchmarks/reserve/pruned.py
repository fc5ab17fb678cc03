"""How fast old keys are deleted, and what claims beside it notice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import quantiles
from typing import Any
from uuid import uuid4

from django.db import connection, connections

from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.sweeper.prune import prune_bite

#: Seconds between two bites, and of claims without pruning.
PAUSE = 0.05
ALONE = 3.0

FILL = """
INSERT INTO {table} (digest, due_at, open_at, created_at, started_at, finished_at, token, generation,
  lease_seconds, duplicates, state, reason, attempts, crashes, sends, in_external, task, key_text, task_id)
SELECT gen_random_uuid(), now() - interval '1 hour', now(), now(), now(), now(), 1, 1,
  60, 0, 7, 1, 1, 0, 0, false, 'shop.charge', 'n', gen_random_uuid()::text FROM generate_series(1, %s)
"""


def pruned(rows: int) -> dict[str, Any]:
    """Rows a second with the usual pauses and without, and the claims' slowest hundredth beside it."""
    _fill(rows)
    with claiming() as alone:
        time.sleep(ALONE)
    with claiming() as beside:
        paused = _prune(PAUSE)
    _fill(rows)
    return {
        "rows": rows,
        "rows a second": round(rows / paused),
        "without pauses": round(rows / _prune(0.0)),
        "claim p99 alone, ms": round(1e3 * p99(alone), 2),
        "beside pruning": round(1e3 * p99(beside), 2),
    }


def _fill(rows: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(FILL.format(table=IdempotencyKey._meta.db_table), [rows])
        cursor.execute(f"ANALYZE {IdempotencyKey._meta.db_table}")


def _prune(pause: float) -> float:
    """Seconds until nothing was left to delete."""
    began = time.perf_counter()
    while any(prune_bite(get_store()).values()):
        time.sleep(pause)
    return time.perf_counter() - began


@contextmanager
def claiming() -> Iterator[list[float]]:
    """Claim new keys on another connection meanwhile; what each took, in seconds."""
    seconds: list[float] = []
    ended = threading.Event()

    def work() -> None:
        try:
            while not ended.is_set():
                seconds.append(timed(claim))
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield seconds
    finally:
        ended.set()
        thread.join()


def claim() -> None:
    """Claim a new key."""
    call = Call(Identity(uuid4(), None, "n", None), "shop.charge", str(uuid4()), None)
    get_store().claim_new(call, owner="bench", lease=60)


def timed(work: Callable[[], None]) -> float:
    """The seconds that it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def p99(values: list[float]) -> float:
    """The slowest hundredth."""
    return quantiles(values, n=100)[98]
