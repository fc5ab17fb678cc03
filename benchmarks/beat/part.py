"""The part that measures beat, in this process: an idle tick with many entries, and many that are due.

Beside the ordinary scheduler of django-celery-beat on the same database and broker.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

from celery import Celery
from django.core.management import call_command
from django.db.models import F

from benchmarks.figures.part import Report, machine_line
from benchmarks.machine.celery import BROKER
from benchmarks.machine.machine import machine_now
from example_project.servers import Servers

#: Ticks of five minutes, after which the ordinary scheduler reads its entries again; ours does each minute.
TICKS, READINGS = 60, 5
GOAL_IDLE, GOAL_DUE = 1.2, 200


def run(options: argparse.Namespace, _servers: Servers, _logs: Path) -> Report:
    """Measure as much as the options say."""
    call_command("migrate", verbosity=0, run_syncdb=True)
    entries, due = (1_000, 500) if options.quick else (10_000, 5_000)
    app = Celery("benchmarks-beat", broker=BROKER, set_as_current=False)
    app.conf.update(result_expires=None, task_default_queue="benchmarks-beat")
    _make(entries)
    ours, ordinary = _ours(app), _ordinary(app)
    rounds = [(_idle(ordinary, 1, _read_ordinary), _idle(ours, READINGS, _read_ours)) for _ in range(3)]
    data: dict[str, Any] = {
        "entries": entries,
        "idle_ms": {
            "ordinary": 1000 * median(each for each, _ in rounds),
            "ours": 1000 * median(each for _, each in rounds),
        },
        "due_per_second": {"ordinary": _due(ordinary, due // 10), "ours": _due_ours(ours, due)},
    }
    _clear(app)
    machine = machine_now()
    return Report(f"{_text(data)}\n\n{machine_line(machine)}", data | {"machine": machine})


def _text(data: dict[str, Any]) -> str:
    idle, due = data["idle_ms"], data["due_per_second"]
    head = f"{'':24} {'ordinary':>9} {'ours':>9}"
    lines = [
        f"{data['entries']} enabled entries; a tick each 5 s, with the readings that fall to it",
        head,
        (
            f"{'idle tick, ms':24} {idle['ordinary']:9.2f} {idle['ours']:9.2f}"
            f"   ratio {idle['ours'] / idle['ordinary']:.2f} (goal: at most {GOAL_IDLE})"
        ),
        f"{'sent a second':24} {due['ordinary']:9.0f} {due['ours']:9.0f}   (goal: at least {GOAL_DUE})",
        "The ordinary scheduler writes down what it sent three minutes later, ours in the same transaction.",
    ]
    return "\n".join(lines)


def _make(number: int) -> None:
    from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask  # noqa: PLC0415

    hourly = IntervalSchedule.objects.create(every=1, period="hours")
    crontabs = [CrontabSchedule.objects.create(minute=f"{minute}", hour="3") for minute in range(60)]
    PeriodicTask.objects.bulk_create(
        PeriodicTask(
            name=f"entry {each}",
            task="benchmarks.nothing",
            interval=hourly if each % 2 else None,
            crontab=None if each % 2 else crontabs[each % 60],
        )
        for each in range(number)
    )


def _ours(app: Celery) -> Any:
    from django_idempotent_tasks.schedulers import SingleInstanceDatabaseScheduler  # noqa: PLC0415

    scheduler = SingleInstanceDatabaseScheduler(app=app)
    scheduler.tick()
    return scheduler


def _ordinary(app: Celery) -> Any:
    from django_celery_beat.schedulers import DatabaseScheduler  # noqa: PLC0415

    scheduler = DatabaseScheduler(app=app)
    scheduler.tick()
    return scheduler


def _read_ours(scheduler: Any) -> None:
    scheduler._read_at = 0.0  # noqa: SLF001  as if a minute had passed


def _read_ordinary(scheduler: Any) -> None:
    scheduler._last_full_sync -= timedelta(seconds=400)  # noqa: SLF001  as if five minutes had


def _idle(scheduler: Any, readings: int, read: Callable[[Any], None]) -> float:
    """Seconds for a tick with nothing due."""
    began = time.perf_counter()
    for number in range(TICKS):
        if number % (TICKS // readings) == 0:
            read(scheduler)
        scheduler.tick()
    return (time.perf_counter() - began) / TICKS


def _due(scheduler: Any, number: int) -> float:
    """Occurrences a second of the ordinary scheduler, which sends one a tick."""
    from django_celery_beat.models import PeriodicTask  # noqa: PLC0415

    ids = list(PeriodicTask.objects.filter(interval__isnull=False).values_list("pk", flat=True)[:number])
    PeriodicTask.objects.filter(pk__in=ids).update(last_run_at=F("date_changed") - timedelta(hours=2))
    _read_ordinary(scheduler)
    began = time.perf_counter()
    while scheduler.tick() == 0:
        pass
    return len(ids) / (time.perf_counter() - began)


def _due_ours(scheduler: Any, number: int) -> float:
    from django_idempotent_tasks.models import BeatCursor, IdempotencyKey  # noqa: PLC0415

    ids = list(BeatCursor.objects.order_by("pk").values_list("pk", flat=True)[:number])
    BeatCursor.objects.filter(pk__in=ids).update(last_due_at=F("last_due_at") - timedelta(hours=25))
    _read_ours(scheduler)
    began = time.perf_counter()
    while scheduler.tick() == 0:
        pass
    seconds = time.perf_counter() - began
    return IdempotencyKey.objects.count() / seconds


def _clear(app: Any) -> None:
    app.amqp.queues["benchmarks-beat"].bind(app.connection_for_write().channel()).delete()
