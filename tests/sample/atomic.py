"""Atomic tasks of the worker processes: one transaction each, stopped or ended where a test wants it."""

from __future__ import annotations

import os
import select
import signal
from contextlib import closing
from typing import Any

from celery import current_task
from celery.exceptions import SoftTimeLimitExceeded
from django.db import connection, transaction

from tests.sample import death
from tests.sample.tasks import backend, begin, guarded, journal, write_effect

#: Far longer than a test: what goes on sooner does not wait for it.
LEASE = 60


def act(task: Any, key: str, plan: list[str]) -> Any:
    """Begin, write an effect and return; do at one place what the plan has for this start.

    An entry is ``"<place>: <what>"``; the places are ``begun``, ``written`` and ``committed``.
    """
    begin(task, key)
    number = journal().starts(key)
    place, _, what = (plan[number - 1] if number <= len(plan) else "").partition(": ")

    def reach(here: str) -> None:
        if here == place:
            _do(what, task, key, f"{key}.{number}")

    transaction.on_commit(lambda: reach("committed"))
    try:
        reach("begun")
        result = write_effect(task, key)
        reach("written")
    except SystemExit:
        journal().write("told to stop", key)
        raise
    return result


def _backend() -> int | None:
    """PostgreSQL's process behind this body, which a test may cut: a sweeper's is idle now and then, too."""
    if connection.vendor != "postgresql":
        return None
    return int(connection.connection.info.backend_pid)


def _do(what: str, task: Any, key: str, gate: str) -> None:
    match what:
        case "wait":
            journal().write("waits", key, backend=_backend())
            journal().visit(gate)
        case "wait and retry":
            journal().visit(gate)
            raise task.retry(countdown=0)
        case "die in a statement":
            connection.connection.pgconn.send_query(b"SELECT pg_sleep(1)")
            os.kill(os.getpid(), signal.SIGKILL)
        case "idle too long":
            with connection.cursor() as cursor:
                cursor.execute("SET idle_in_transaction_session_timeout = 1")
            wait_for_the_server()
        case "lose the connection":
            with closing(connection.copy()) as other, other.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(%s)", [backend()])
            wait_for_the_server()
        case "die with the worker":
            os.killpg(0, signal.SIGKILL)
        case _:
            death._do(what, task, key, [])


def wait_for_the_server() -> None:
    """Wait until the server has said something that nobody asked for, and let it be heard later."""
    select.select([connection.connection.fileno()], [], [])


def _task(name: str, **options: Any) -> Any:
    defaults = {"mode": "atomic", "lease": LEASE, "max_retries": 20, "default_retry_delay": 0}
    return guarded(name=f"atomic.{name}", **{**defaults, **options})(act)


acting = _task("acting")
persistent = _task("persistent", autoretry_for=(death.Trouble, SoftTimeLimitExceeded))
delicate = _task("delicate", max_crashes=2)
impatient = _task("impatient", on_store_down="raise")
requeued_on_timeout = _task("requeued_on_timeout", **death.UNACKED)
delicately_requeued_on_timeout = _task("delicately_requeued_on_timeout", max_crashes=2, **death.UNACKED)
reserved = _task("reserved", reserve=True)
#: With nothing to store, its commit is the first statement after the body.
silent = _task("silent", store_result=False)


@guarded(name="atomic.brief", mode="atomic", max_crashes=1000, max_retries=3, default_retry_delay=0)
def brief(self: Any, key: str, *, retried: bool = False) -> dict[str, Any]:
    """Write an effect in a transaction that is open for a while; ask for one retry if told so."""
    return _write_slowly(self, key, retried=retried)


@guarded(name="atomic.ordering", mode="atomic", max_crashes=1000, reserve=True, max_retries=3)
def ordering(self: Any, key: str, *, retried: bool = False) -> dict[str, Any]:
    """The same, reserved."""
    return _write_slowly(self, key, retried=retried)


def _write_slowly(task: Any, key: str, *, retried: bool) -> dict[str, Any]:
    begin(task, key)
    result = write_effect(task, key)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(0.02)")
    if retried and task.request.retries == 0:
        raise current_task.retry(countdown=0)
    return result


@guarded(name="atomic.crossing", mode="atomic", lease=LEASE, max_retries=0)
def crossing(self: Any, key: str, first: str, second: str) -> dict[str, Any]:
    """Change two rows, one after the other; stop between them in the first run."""
    begin(self, key)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL deadlock_timeout = 10")  # this one is the victim
        cursor.execute("UPDATE sample_effect SET note = note || 'ours' WHERE key = %s", [first])
        journal().visit(f"{key}.{journal().starts(key)}")
        cursor.execute("UPDATE sample_effect SET note = note || 'ours' WHERE key = %s", [second])
    return write_effect(self, key)
