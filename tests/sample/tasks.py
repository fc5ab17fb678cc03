"""The guarded tasks that worker processes run. Leases are short; bodies wait at gates, not by the clock."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from celery.exceptions import Ignore
from django.db import connection, transaction
from django.db.models import F

from django_idempotent_tasks import IdempotentTask, LeaseLost
from django_idempotent_tasks.models import IdempotencyKey
from tests.sample.celery import app
from tests.support.waiting import eventually
from tests.support.workers.journal import Journal

LEASE = 2


def journal() -> Journal:
    """The journal that this process shares with the tests."""
    return Journal(Path(os.environ["PROJ_DIRECTORY"]))


def guarded(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a guarded task of these tests; ``key`` is its first argument."""
    defaults = {"base": IdempotentTask, "bind": True, "key": "key", "lease": LEASE}
    decorator: Callable[[Callable[..., Any]], Any] = app.task(**{**defaults, **options})
    return decorator


def begin(task: Any, key: str, *, gated: bool = False) -> None:
    """Say that the body of an attempt has begun, and stop at the attempt's gate."""
    now = task.idempotency
    journal().write(
        "started",
        key,
        task_id=task.request.id,
        attempt=now.attempt,
        token=now.token,
        previous_attempt_died=now.previous_attempt_died,
        downstream=now.downstream_key("effect"),
    )
    if gated:
        journal().visit(f"{key}.{now.attempt}")


def write_effect(task: Any, key: str) -> dict[str, Any]:
    """Write one effect; what a result says about it."""
    now = task.idempotency
    from tests.sample.models import Effect  # noqa: PLC0415  Celery may import this before the models

    Effect.objects.create(key=key, attempt=now.attempt, token=now.token)
    return {"key": key, "attempt": now.attempt}


def complete_with_effect(task: Any, key: str) -> dict[str, Any]:
    """Write an effect inside ``.complete()``, and report when that is refused."""
    try:
        with task.idempotency.complete() as done:
            done.result = write_effect(task, key)
    except LeaseLost:
        journal().write("refused", key, attempt=task.idempotency.attempt)
        raise
    return dict(done.result)


def effect(self: Any, key: str, gated: bool = False) -> dict[str, Any]:
    """Write an effect and complete the key, in one transaction."""
    begin(self, key, gated=gated)
    return complete_with_effect(self, key)


skipping = guarded(name="proj.skipping")(effect)
replaying = guarded(name="proj.replaying", on_duplicate="replay")(effect)
raising = guarded(name="proj.raising", on_duplicate="raise")(effect)
forgetful = guarded(name="proj.forgetful", retention=0)(effect)
patient = guarded(name="proj.patient", lease=6)(effect)
impatient = guarded(name="proj.impatient", on_store_down="raise")(effect)


@guarded()
def returning(self: Any, key: str, *, gated: bool = False) -> dict[str, Any]:
    """Write an effect and let the return value complete the key."""
    begin(self, key, gated=gated)
    return write_effect(self, key)


def charge(self: Any, key: str, gated: bool = False) -> dict[str, Any]:
    """Cause an effect outside the database, with the key that a provider would recognise."""
    begin(self, key, gated=gated)
    now = self.idempotency
    journal().write("charged", key, attempt=now.attempt, downstream=now.downstream_key("charge"))
    return {"attempt": now.attempt}


charging = guarded(name="proj.charging")(charge)
charging_patiently = guarded(name="proj.charging_patiently", lease=8)(charge)


@guarded()
def dying(self: Any, key: str) -> None:
    """End the process that runs it, each time."""
    begin(self, key)
    os.kill(os.getpid(), 9)


@guarded(time_limit=1)
def endless(self: Any, key: str) -> None:
    """Run into the hard time limit."""
    begin(self, key, gated=True)


@guarded()
def renewed(self: Any, key: str, *, in_transaction: bool = False) -> int:
    """Return once the heartbeat has renewed this attempt's lease; the backend of the connection used."""
    begin(self, key)
    rows = IdempotencyKey.objects.filter(
        key_text=self.idempotency.key, open_at__gt=F("started_at") + timedelta(seconds=LEASE)
    )
    if not in_transaction:
        eventually(rows.exists, "the lease was renewed")
        return backend()
    with transaction.atomic():
        before = backend()
        eventually(rows.exists, "the lease was renewed")
        write_effect(self, key)
        return before if before == backend() else -1


@guarded()
def deaf(self: Any, key: str) -> None:
    """In the first attempt hold the interpreter's lock for two leases, as some C extensions do."""
    begin(self, key)
    if self.idempotency.attempt == 1:
        ctypes.PyDLL(None).sleep(2 * LEASE)
    complete_with_effect(self, key)


@guarded()
def connected(self: Any, key: str) -> int:
    """Return which server process answers this worker child."""
    begin(self, key)
    return backend()


def backend() -> int:
    """The server process behind this thread's connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def watch(self: Any, key: str) -> None:
    """Report when it is told that the lease is lost, wait for the test, then try to complete."""
    begin(self, key)
    gate = f"{key}.{self.idempotency.attempt}"
    eventually(lambda: self.idempotency.lost or journal().is_open(gate), "lost, or let through", within=60)
    if self.idempotency.lost:
        journal().write("lost", key, attempt=self.idempotency.attempt)
    journal().visit(gate)
    complete_with_effect(self, key)


watching = guarded(name="proj.watching")(watch)
watching_patiently = guarded(name="proj.watching_patiently", lease=8)(watch)


@guarded()
def heeding(self: Any, key: str, how: str) -> None:
    """As ``watch``; stop in one of these ways where the lease was lost."""
    begin(self, key)
    gate = f"{key}.{self.idempotency.attempt}"
    eventually(lambda: self.idempotency.lost or journal().is_open(gate), "lost, or let through", within=60)
    if self.idempotency.lost:
        journal().write("lost", key, attempt=self.idempotency.attempt)
        journal().visit(gate)
        raise {"error": RuntimeError("stopped"), "ignore": Ignore()}[how]
    complete_with_effect(self, key)


if os.environ.get("PROJ_BAD_TASK"):

    @guarded(lease=0)
    def misconfigured(self: Any, key: str) -> None:
        """A task that no worker may start with."""
