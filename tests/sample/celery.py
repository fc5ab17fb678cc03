"""The tests' Celery app. It is not the current one by itself, so that other tests have theirs."""

from __future__ import annotations

import math
import os
import threading
import time

from celery import Celery, signals

app = Celery(
    "tests.sample",
    set_as_current=False,
    include=[
        f"tests.sample.{name}"
        for name in (
            "tasks",
            "endings",
            "death",
            "reserving",
            "atomic",
            "failures",
            "periodic",
            "leaving",
            "stepping",
            "batching",
            "refreshing",
        )
    ],
)
app.config_from_object("tests.sample.celery_config")


@signals.worker_init.connect
def _set_the_pace(**_kwargs: object) -> None:
    """Sweep, and write that the worker lives, more often than in production, where a test asks for it."""
    from django_idempotent_tasks.ledger import outage  # noqa: PLC0415  it has models
    from django_idempotent_tasks.sweeper import thread  # noqa: PLC0415  it has models
    from django_idempotent_tasks.worker import presence  # noqa: PLC0415  it has models

    pace = os.environ.get("PROJ_SWEEP_SECONDS")
    if pace:
        thread.POLL = thread.INTERVAL = presence.EVERY = float(pace)
        outage.GAP = gap(thread.POLL)


def gap(pace: float) -> int:
    """Return how many seconds without a note are an outage where sweepers note at this pace."""
    return math.ceil(3 * pace) + 1


@signals.beat_init.connect
def _set_the_pace_of_beat(**_kwargs: object) -> None:
    """A shorter lease, where a test asks for it."""
    lease = os.environ.get("PROJ_BEAT_LEASE")
    if lease:
        from django_idempotent_tasks import schedulers  # noqa: PLC0415  it has models

        vars(schedulers).update(LEASE=int(lease), PACE=int(lease) / 3)


@signals.worker_init.connect
def _query_before_forking(**_kwargs: object) -> None:
    """What projects do in AppConfig.ready(): a connection is open when the children are forked."""
    from django.db import connection  # noqa: PLC0415

    from tests.sample.tasks import journal  # noqa: PLC0415

    if "query" in os.environ.get("PROJ_PARENT", ""):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            journal().write("parent", "", backend=cursor.fetchone()[0])


@signals.worker_init.connect
def _hold_locks_while_forking(**_kwargs: object) -> None:
    """A thread of the parent has the heartbeat's lock nearly always, so that children inherit it locked."""
    from django_idempotent_tasks.running import heartbeat  # noqa: PLC0415

    def hold() -> None:
        while True:
            with heartbeat._heart._changed:
                time.sleep(0.05)

    if "locks" in os.environ.get("PROJ_PARENT", ""):
        threading.Thread(target=hold, daemon=True).start()
