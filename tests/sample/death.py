"""Guarded tasks with a lease of a minute, so that a claim that is free sooner was freed, and ways to die."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from importlib import import_module
from typing import Any

from celery import Task
from celery.exceptions import Ignore, Reject, WorkerShutdown
from celery.worker.request import Request
from django.db import connection

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.sample.celery import app
from tests.sample.tasks import begin, complete_with_effect, guarded, journal

LEASE = 60

app.conf.update(json.loads(os.environ.get("PROJ_CELERY", "{}")))
if os.environ.get("PROJ_BROKEN"):
    import_module("tests.deaths.leased.broken").apply(os.environ["PROJ_BROKEN"])


class Trouble(Exception):
    """What a body raises that is told to fail."""


def act(task: Any, key: str, plan: list[str]) -> Any:
    """Begin, do what the plan has for this attempt, and complete the key with an effect."""
    begin(task, key)
    attempt = task.idempotency.attempt
    deed = plan[attempt - 1] if attempt <= len(plan) else "finish"
    try:
        _do(deed, task, key, plan)
    except SystemExit:
        journal().write("told to stop", key, attempt=attempt)
        raise
    return complete_with_effect(task, key)


def _do(deed: str, task: Any, key: str, plan: list[str]) -> None:
    gate = f"{key}.{task.idempotency.attempt}"
    match deed:
        case "wait":
            journal().visit(gate)
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hold the interpreter":
            # A signal would wake the C function up; one that computes is not woken.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
            ctypes.PyDLL(None).sleep(LEASE)
        case "query":
            with connection.cursor() as cursor:
                cursor.execute("SET client_connection_check_interval = 200")
                cursor.execute("SELECT pg_sleep(%s)", [LEASE])
        case "complete when stopped":
            _complete_when_stopped(task, key, gate)
        case _:
            _end(deed, task, key, plan)


def _complete_when_stopped(task: Any, key: str, gate: str) -> None:
    try:
        journal().visit(gate)
    except SystemExit:
        complete_with_effect(task, key)
        raise


def _end(deed: str, task: Any, key: str, plan: list[str]) -> None:
    """Die, fail, answer the broker or ask for a retry, as ``deed`` says."""
    _die(deed)
    _leave(deed)
    _answer(deed)
    if deed == "retry where nobody listens":
        raise task.retry(countdown=0, queue="parked")
    _ask_again(deed, task, key, plan)


def _die(deed: str) -> None:
    match deed:
        case "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "read a null pointer":
            ctypes.string_at(0)
        case "exit":
            sys.exit(3)
        case "run out of memory":
            raise MemoryError


def _leave(deed: str) -> None:
    """End as a process that is told to, or that means to."""
    word, _, number = deed.rpartition(" ")
    match word:
        case "signal":
            os.kill(os.getpid(), getattr(signal, number))
        case "leave with":
            os._exit(int(number))
        case "raise":
            raise {"KeyboardInterrupt": KeyboardInterrupt, "WorkerShutdown": WorkerShutdown}[number]


def _answer(deed: str) -> None:
    match deed:
        case "raise":
            raise Trouble(deed)
        case "ignore":
            raise Ignore
        case "reject":
            raise Reject(deed, requeue=False)
        case "requeue":
            raise Reject(deed, requeue=True)


#: Retries with a countdown, in seconds.
LATER = {
    "retry very soon": 0.3,
    "retry in a second": 1,
    "retry in two seconds": 2,
    "retry in five seconds": 5,
}


def _ask_again(deed: str, task: Any, key: str, plan: list[str]) -> None:
    match deed:
        case "retry":
            raise task.retry(countdown=0)
        case "retry by name":
            raise app.tasks[task.name].retry(countdown=0)
        case "retry with other arguments":
            raise task.retry(args=(f"{key}-changed", plan), countdown=0)
        case _ if deed in LATER:
            raise task.retry(countdown=LATER[deed])
        case "retry after the gate":
            journal().visit(f"{key}.{task.idempotency.attempt}")
            raise task.retry(countdown=0)


def _task(name: str, **options: Any) -> Any:
    defaults = {"lease": LEASE, "max_retries": 20, "default_retry_delay": 0}
    return guarded(name=f"death.{name}", **{**defaults, **options})(act)


acting = _task("acting")
brief = _task("brief", lease=2)
persistent = _task("persistent", autoretry_for=(Trouble,))
#: Under its name in Celery 5.7, and under that of earlier versions.
UNACKED: dict[str, Any] = {"acks_on_timeout": False, "acks_on_failure_or_timeout": False}
requeued_on_timeout = _task("requeued_on_timeout", **UNACKED)
delicate = _task("delicate", max_crashes=2)
delicately_requeued_on_timeout = _task("delicately_requeued_on_timeout", max_crashes=2, **UNACKED)
secretive = _task("secretive", sensitive=("plan",))
contradictory = _task("contradictory", soft_time_limit=10, time_limit=5)
early_acked = _task("early_acked", lease=2, acks_late=False)


class CountingRequest(Request):
    """A project's own request class, named by a task."""

    def on_failure(self, exc_info: Any, *args: Any, **kwargs: Any) -> Any:
        """Report what the parent hears of a failed child, then do as Celery does."""
        key, error = self.args[0], exc_info.exception
        row = IdempotencyKey.objects.get(key_text=f"key={key}")
        connection.close()
        name = type(getattr(error, "exc", error)).__name__
        journal().write("parent heard", key, error=name, state=State(row.state).name)
        return super().on_failure(exc_info, *args, **kwargs)


counted = _task("counted", Request=CountingRequest)
counted_by_name = _task("counted_by_name", Request="tests.sample.death:CountingRequest")


@app.task(base=Task, name="death.ticking", acks_late=False)
def ticking(name: str) -> None:
    """Show that the worker takes and runs messages; it is not guarded and needs no database."""
    journal().write("tick", name)
