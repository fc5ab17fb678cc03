"""An atomic call in a process of its own, of a host that vanishes, or of the next one."""

from __future__ import annotations

import sys
from typing import Any

import django
from django.db import connection

from django_idempotent_tasks import IdempotentTask
from tests.sample.celery import app
from tests.support.workers.journal import Journal


@app.task(base=IdempotentTask, bind=True, mode="atomic", key="key", name="proj.vanishing")
def vanishing(self: Any, key: str, where: str) -> str:  # noqa: ARG001
    """Tell that it has begun, and stop there: in a statement or between two."""
    from tests.sample.tasks import journal  # noqa: PLC0415  with the environment

    stop: Journal = journal()
    stop.write("started", key)
    if where == "in a statement":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(600)")
    elif where == "between two":
        stop.visit(key)
    return where


if __name__ == "__main__":
    django.setup()
    print(vanishing.apply(sys.argv[1:3]).get())
