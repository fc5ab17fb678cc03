"""The ways to send one task beside one business row, each as its documentation tells."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from itertools import count
from typing import Any
from uuid import uuid4

from celery import Celery
from django.db import transaction
from redis import Redis

from benchmarks.throughput.plain import write_row
from django_idempotent_tasks import IdempotentTask

Send = Callable[[int], object]

PLAIN = "row + plain .delay() after the commit"
RESERVED = "row + .delay() with reserve"
DUPLICATE = ".delay() of a duplicate with reserve"


def producers(app: Celery) -> dict[str, Send]:
    """What is measured, by name; a peer that is not installed is left out."""
    plain = _task(app, "sent.plain")
    reserving = _task(app, "sent.reserving", base=IdempotentTask, key="number", reserve=True)
    found: dict[str, Send] = {
        PLAIN: lambda number: _with_row(number, lambda: transaction.on_commit(lambda: plain.delay(number))),
        RESERVED: lambda number: _with_row(number, lambda: reserving.delay(number)),
        "plain .delay() alone": plain.delay,
        ".delay() with reserve alone": reserving.delay,
        "SET NX, then plain .delay()": _naive(plain),
        DUPLICATE: _duplicate(reserving),
    }
    with suppress(ImportError):
        once = _task(app, "sent.once", base=import_module("celery_once").QueueOnce, once={"timeout": 600})
        found["celery-once .delay()"] = once.delay
    with suppress(ImportError):
        singleton = _task(app, "sent.singleton", base=import_module("celery_singleton").Singleton)
        found["celery-singleton .delay()"] = singleton.delay
    return found


def make_app() -> Celery:
    """An app with a queue of its own that nobody reads."""
    url = os.environ["CELERY_BROKER_URL"]
    app = Celery("reserve", broker=url, set_as_current=False)
    app.conf.update(task_default_queue=f"reserve-{uuid4().hex}", task_ignore_result=True)
    app.conf.ONCE = {
        "backend": "celery_once.backends.Redis",
        "settings": {"url": url, "default_timeout": 600},
    }
    app.conf.singleton_backend_url = url
    app.set_default()
    return app


def _task(app: Any, name: str, **options: Any) -> Any:
    def run(number: int) -> int:
        return number

    return app.task(name=name, shared=False, **options)(run)


def _with_row(number: int, send: Callable[[], object]) -> None:
    with transaction.atomic():
        write_row("reserve", number)
        send()


def _naive(plain: Any) -> Send:
    client: Any = Redis.from_url(os.environ["CELERY_BROKER_URL"])

    def send(number: int) -> None:
        if client.set(f"naive-{number}", "1", nx=True, ex=600):
            plain.delay(number)

    return send


def _duplicate(reserving: Any) -> Send:
    taken = -next(count(1))
    reserving.delay(taken)
    return lambda _number: reserving.delay(taken)
