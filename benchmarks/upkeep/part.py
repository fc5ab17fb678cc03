"""Whether the sweeper keeps up: what it deletes beside claims, a table under load, messages a second."""

from __future__ import annotations

import argparse
import json
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from celery import Celery
from django.core.management import call_command
from django.db import connection, connections
from redis import Redis

from benchmarks.figures.part import Report, machine_line
from benchmarks.machine.machine import machine_now
from benchmarks.reserve.producers import make_app
from benchmarks.reserve.pruned import FILL, claim, p99, timed
from django_idempotent_tasks import IdempotentTask
from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.sweep import Sweep
from django_idempotent_tasks.sweeper.thread import Sweeper
from example_project.servers import Servers

#: Seconds of claims without anything beside them.
ALONE = 5.0
#: Completions a second that the table must bear.
RATE = 2_000
#: Seconds between two looks at the table.
LOOK = 1.0
CLAIMER = (
    "import django; django.setup(); from benchmarks.upkeep.part import claim_until_told; claim_until_told()"
)


def run(options: argparse.Namespace, servers: Servers, _logs: Path) -> Report:
    """Measure as much as the options say."""
    call_command("migrate", verbosity=0, run_syncdb=True)
    app = make_app()
    data: dict[str, Any] = {
        "sent": _sent(app, servers.broker_url, 2_000 if options.quick else 20_000),
        "backlog": _backlog(app, 50_000 if options.quick else 1_000_000),
        "level": _level(app, seconds=20 if options.quick else 600),
    }
    machine = machine_now()
    lines = [f"{name}: " + ", ".join(f"{key} {value}" for key, value in data[name].items()) for name in data]
    return Report("\n".join([*lines, "", machine_line(machine)]), data | {"machine": machine})


def _sent(app: Celery, broker_url: str, messages: int) -> dict[str, Any]:
    """Messages a second of the sweeper's bites, each on connections of its own, as in a worker."""
    store = get_store()
    stored = _stored(app)
    for _ in range(messages):
        task_id = str(uuid4())
        message = (stored.message or "").replace(stored.task_id, task_id)
        call = Call(Identity(uuid4(), None, "n", None), stored.task, task_id, message)
        store.reserve_new(call, wait=0, sends=-1)
    sweep, sent, goes_on = Sweep(app), 0, True
    began, busy = time.perf_counter(), time.process_time()
    while goes_on:
        with store.side_connection() as side:
            swept = sweep.go_on(side)
        sent, goes_on = sent + swept.sent, swept.goes_on
    seconds, busy = time.perf_counter() - began, time.process_time() - busy
    with Redis.from_url(broker_url) as broker:
        broker.delete(app.conf.task_default_queue)
    IdempotencyKey.objects.all().delete()
    return {
        "messages": sent,
        "a second": round(sent / seconds),
        "processor ms a message": round(1e3 * busy / max(sent, 1), 3),
    }


def _stored(app: Any) -> IdempotencyKey:
    """A row whose message is as a reserved call stores it; it is deleted."""

    def run(number: int) -> int:
        return number

    app.task(name="sent.swept", base=IdempotentTask, key="number", reserve=True, shared=False)(run).delay(7)
    row = IdempotencyKey.objects.get()
    IdempotencyKey.objects.all().delete()
    return row


def _backlog(app: Celery, rows: int) -> dict[str, Any]:
    """Seconds until so many expired keys are gone, and the claims' slowest hundredth beside it."""
    _fill(rows)
    with _claiming() as alone:
        time.sleep(ALONE)
    sweeper = Sweeper(app)
    with _claiming() as beside:
        began, busy = time.perf_counter(), time.process_time()
        sweeper.start()
        try:
            while _past(limit=1):
                time.sleep(0.2)
        finally:
            sweeper.stop()
        seconds, busy = time.perf_counter() - began, time.process_time() - busy
    before, after = p99(alone), p99(beside)
    IdempotencyKey.objects.all().delete()
    return {
        "keys": rows,
        "seconds": round(seconds, 1),
        "the sweeper's processor seconds": round(busy, 1),
        "claim p99 alone, ms": round(1e3 * before, 2),
        "beside": round(1e3 * after, 2),
        "ratio": round(after / before, 2),
    }


def _level(app: Celery, *, seconds: int) -> dict[str, Any]:
    """How large a table is to which keys past their time come at a steady rate, at the start and the end."""
    sweeper, looks = Sweeper(app), []
    sweeper.start()
    try:
        began = time.perf_counter()
        for second in range(seconds):
            _fill(RATE, analyze=False)
            looks.append(_past(limit=1_000_000))
            time.sleep(max(began + (second + 1) * LOOK - time.perf_counter(), 0.0))
    finally:
        sweeper.stop()
    third = max(len(looks) // 3, 1)
    IdempotencyKey.objects.all().delete()
    return {
        "keys a second": RATE,
        "seconds": seconds,
        "most past their time, first third": max(looks[:third]),
        "last third": max(looks[-third:]),
    }


@contextmanager
def _claiming() -> Iterator[list[float]]:
    """Claim new keys in a process of its own meanwhile; what each took, in seconds, once it has ended."""
    seconds: list[float] = []
    program = [sys.executable, "-c", CLAIMER]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as claimer:
        assert claimer.stdout is not None  # noqa: S101  asked for above
        claimer.stdout.readline()
        try:
            yield seconds
        finally:
            seconds.extend(json.loads(claimer.communicate("end\n")[0]))


def claim_until_told() -> None:
    """Claim one key after the other until a line comes in, and print what each took."""
    claim()
    print(flush=True)
    seconds: list[float] = []
    while not select.select([sys.stdin], [], [], 0)[0]:
        seconds.append(timed(claim))
    print(json.dumps(seconds))


def _past(*, limit: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM {IdempotencyKey._meta.db_table}"  # noqa: S608  our table
            f" WHERE state = {int(State.SUCCEEDED)} AND due_at <= now() LIMIT %s) AS past",
            [limit],
        )
        number: int = cursor.fetchone()[0]
    return number


def _fill(rows: int, *, analyze: bool = True) -> None:
    with connections["default"].cursor() as cursor:
        cursor.execute(FILL.format(table=IdempotencyKey._meta.db_table), [rows])
        if analyze:
            cursor.execute(f"ANALYZE {IdempotencyKey._meta.db_table}")
