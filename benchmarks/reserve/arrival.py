"""How long after the commit a message is with the broker, and how fast the sweeper sends."""

from __future__ import annotations

import time
from statistics import quantiles
from typing import Any

from celery import Celery
from django.db import transaction
from redis import Redis

from benchmarks.throughput.plain import write_row
from django_idempotent_tasks import IdempotentTask
from django_idempotent_tasks.ledger.stores import clock, get_store
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.sweep import Sweep

#: Seconds by which the clock is moved, so that every reservation is due to be sent again.
LATER = 4000


def arrival(app: Celery, broker_url: str, times: int) -> dict[str, Any]:
    """Milliseconds from the commit to the broker's answer, and rows a second of a sweep."""

    def run(number: int) -> int:
        return number

    task = app.task(name="sent.arriving", shared=False, base=IdempotentTask, key="number", reserve=True)(run)
    waits = [_wait(task, number) for number in range(times)]
    percentiles = quantiles(waits, n=100)
    with Redis.from_url(broker_url) as broker:
        broker.delete(app.conf.task_default_queue)
    return {
        "ms after the commit, median": round(1e3 * percentiles[49], 2),
        "p99": round(1e3 * percentiles[98], 2),
        "rows a second of a sweep": round(_swept(app)),
    }


def _wait(task: Any, number: int) -> float:
    """Hooks run in order after the commit: the first one notes the time, the second one sends."""
    committed: list[float] = []
    with transaction.atomic():
        write_row("arrival", number)
        transaction.on_commit(lambda: committed.append(time.perf_counter()))
        task.delay(number)
    return time.perf_counter() - committed[0]


def _swept(app: Celery) -> float:
    """All that was reserved, as if none of it had ever been sent."""
    rows = IdempotencyKey.objects.filter(state=State.PENDING).update(sends=-1)
    began, sweep = time.perf_counter(), Sweep(app)
    with clock.shifted(LATER):
        while sweep.go_on(get_store()).goes_on:
            pass
    return rows / (time.perf_counter() - began)
