"""Tasks that leave a transaction open on their connection, as if nothing were."""

from __future__ import annotations

import os
import signal
from typing import Any

from celery.contrib.django.task import DjangoTask
from celery.exceptions import SoftTimeLimitExceeded
from django.db import connection, connections, transaction

from tests.sample.celery import app
from tests.sample.tasks import guarded


def write(key: str) -> None:
    """Write one effect."""
    from tests.sample.models import Effect  # noqa: PLC0415  Celery may import this before the models

    Effect.objects.create(key=key, attempt=1, token=1)


def leave(key: str, how: str) -> str:
    """Write in a transaction that is not ended, and return."""
    match how:
        case "BEGIN":
            with connection.cursor() as cursor:
                cursor.execute("BEGIN")
            write(key)
        case "alter the session":
            with connection.cursor() as cursor:
                cursor.execute("SET search_path = pg_catalog; SET statement_timeout = 1")
        case "autocommit":
            connection.set_autocommit(False)
            write(key)
        case _:
            _be_struck(key)
    return how


def _be_struck(key: str) -> None:
    """Catch a soft time limit that strikes when the driver is in a transaction and Django not yet."""
    wrapper = connections["default"]
    is_sqlite = wrapper.vendor == "sqlite"
    name = "_start_transaction_under_autocommit" if is_sqlite else "_set_autocommit"
    switch = getattr(wrapper, name)

    def switch_and_strike(*autocommit: bool) -> None:
        switch(*autocommit)
        os.kill(os.getpid(), signal.SIGUSR1)  # what Celery's pool sends to a child for it

    vars(wrapper)[name] = switch_and_strike
    try:
        with transaction.atomic():
            write(key)
    except SoftTimeLimitExceeded:
        del vars(wrapper)[name]
        write(key)


@guarded(name="leaving.leased", lease=60, soft_time_limit=60)
def leased(self: Any, key: str, how: str) -> str:  # noqa: ARG001
    """Leave a transaction open."""
    return leave(key, how)


@app.task(name="leaving.plain", base=DjangoTask, soft_time_limit=60)
def plain(key: str, how: str) -> str:
    """The same in a task that nothing guards."""
    return leave(key, how)
