"""Many calls in one transaction: ``submit_many`` beside loops of plain ``.delay()`` and of ``submit()``."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from statistics import median
from typing import Any

from celery import Celery
from django.db import transaction

from benchmarks.figures.arithmetic import alternating
from django_idempotent_tasks import IdempotentTask

Ways = dict[str, Callable[[range], object]]

PLAIN = "loop of plain .delay()"


def many(app: Celery, calls: int, rounds: int) -> dict[str, Any]:
    """Calls a second, and processor time of this process beside that of plain ``.delay()``."""
    ways, numbers = _ways(app), count(1_000_000, calls)
    elapsed: dict[str, list[float]] = {name: [] for name in ways}
    busy: dict[str, list[float]] = {name: [] for name in ways}
    for send in ways.values():
        send(range(20))
    for order in alternating(list(ways), rounds):
        for name in order:
            first = next(numbers)
            began, worked = time.perf_counter(), time.process_time()
            with transaction.atomic():
                ways[name](range(first, first + calls))
            elapsed[name].append(time.perf_counter() - began)
            busy[name].append(time.process_time() - worked)
    beside = median(busy[PLAIN])
    return {
        name: {
            "calls/s": round(calls / median(elapsed[name])),
            "processor time": round(beside / median(busy[name]), 2),
        }
        for name in ways
    }


def _ways(app: Any) -> Ways:
    @app.task(name="many.plain", shared=False)  # type: ignore[untyped-decorator]
    def plain(number: int) -> int:
        return number

    @app.task(name="many.guarded", shared=False, base=IdempotentTask, key="number")  # type: ignore[untyped-decorator]
    def guarded(number: int) -> int:
        return number

    return {
        PLAIN: lambda numbers: [plain.delay(number) for number in numbers],
        "loop of submit()": lambda numbers: [guarded.submit(args=[number]) for number in numbers],
        "submit_many()": lambda numbers: guarded.submit_many({"args": [number]} for number in numbers),
    }
