"""Writes to the ledger in a process of its own, and stops before the commit: a host that vanishes there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import django
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper

from django_idempotent_tasks import IdempotentTask
from tests.sample.celery import app
from tests.support.workers.journal import Journal

#: How the statement begins behind which it stops.
WRITES = {
    "completion": "\nUPDATE",
    "progress": "\nUPDATE",
    "step": "\nINSERT",
    "record": "\nUPDATE",
    "lead": "\nINSERT",
}


def stop_behind(used: BaseDatabaseWrapper, where: str) -> None:
    """Let the next such statement on a connection be the last: tell of it, and stay there."""
    from tests.sample.tasks import journal  # noqa: PLC0415  with the environment

    stop: Journal = journal()

    def execute(execute: Callable[..., Any], sql: str, params: Any, many: Any, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if sql.startswith(WRITES[where]):
            stop.write("written", where)
            stop.visit(where)
        return result

    used.execute_wrappers.append(execute)


@app.task(base=IdempotentTask, bind=True, key="where", name="proj.vanishing_leased")
def vanishing(self: Any, where: str) -> None:
    """Stop behind the write that is named."""
    if where == "step":
        self.idempotency.step("one", stop_behind, connection, where)
        return
    with self.idempotency.complete():
        if where == "progress":
            self.idempotency.progress(1, 2)
        stop_behind(connection, where)


@app.task(base=IdempotentTask, bind=True, key="records", name="proj.vanishing_records")
def vanishing_records(self: Any, records: list[int]) -> None:
    """Stop behind the outcome of a record."""
    for record in self.idempotency.records(records):
        with record:
            stop_behind(connection, "record")


def lead() -> None:
    """Stop behind the row of the lead."""
    from django_idempotent_tasks.ledger.stores import get_store  # noqa: PLC0415  once Django is set up
    from django_idempotent_tasks.models import SWEEPER  # noqa: PLC0415  the same

    with get_store().side_connection() as side:
        stop_behind(side.connection, "lead")
        side.lead(SWEEPER, holder="vanishing", lease=10)


def main(where: str) -> None:
    """Do what is named."""
    if where == "lead":
        lead()
    elif where == "record":
        from django_idempotent_tasks import submit_batch  # noqa: PLC0415  the same

        app.conf.task_always_eager = True
        submit_batch(vanishing_records, [1, 2], chunk_size=2, batch_key="vanishing")
    else:
        vanishing.apply([where]).get()


if __name__ == "__main__":
    django.setup()
    main(sys.argv[1])
