"""The guarded tasks of a chaos run: their effects are rows that a checker counts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NoReturn

from celery import shared_task
from django.db import DatabaseError, InterfaceError

from benchmarks.chaos.broken import break_what_is_named
from benchmarks.chaos.models import Change, Charge, Effect, Seen
from django_idempotent_tasks import IdempotentTask, PermanentError

break_what_is_named()


def guarded(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a guarded task; a connection that is cut inside a body is no end of the work."""
    defaults = {
        "base": IdempotentTask,
        "bind": True,
        "key": "key",
        "autoretry_for": (DatabaseError, InterfaceError),
        "max_retries": None,
        "default_retry_delay": 1,
    }
    decorate: Callable[[Callable[..., Any]], Any] = shared_task(**{**defaults, **options})
    return decorate


def write(task: Any, key: str, part: str = "") -> str:
    """Write one effect; the name of its part."""
    Effect.objects.create(key=key, part=part, token=task.idempotency.token)
    return part


def ask(key: str, downstream: str) -> str:
    """Ask the provider; what it answers."""
    Charge.objects.create(key=key, downstream=downstream)
    return f"charged {downstream}"


def _complete(self: Any, key: str, seconds: float = 0.0) -> None:
    time.sleep(seconds)
    with self.idempotency.complete():
        write(self, key)


def _write(self: Any, key: str, seconds: float = 0.0) -> None:
    write(self, key)
    time.sleep(seconds)


@guarded()
def returning(self: Any, key: str, seconds: float = 0.0) -> str:
    """Ask a provider, and complete by return."""
    answer = ask(key, self.idempotency.downstream_key("charge"))
    time.sleep(seconds)
    return answer


completing = guarded(name="benchmarks.chaos.tasks.completing")(_complete)
committing = guarded(name="benchmarks.chaos.tasks.committing", mode="atomic")(_write)
reserved = guarded(name="benchmarks.chaos.tasks.reserved", reserve=True)(_complete)
reserved_atomically = guarded(name="benchmarks.chaos.tasks.reserved_atomically", mode="atomic", reserve=True)(
    _write
)
submitted = guarded(name="benchmarks.chaos.tasks.submitted", reserve=True)(_complete)


@guarded()
def stepping(self: Any, key: str, seconds: float = 0.0) -> str:
    """Take two steps that write an effect each, and one outside the database between them."""
    step = self.idempotency.step
    step("first", write, self, key, "first")
    step("ask", ask, key, self.idempotency.downstream_key("ask"), external=True)
    time.sleep(seconds)
    return str(step("second", write, self, key, "second"))


@guarded()
def retrying(self: Any, key: str, seconds: float = 0.0, retries: int = 1) -> None:
    """Ask for so many retries, then complete."""
    if self.request.retries < retries:
        raise self.retry(countdown=0)
    _complete(self, key, seconds)


@guarded()
def refusing(_task: Any, key: str, seconds: float = 0.0) -> NoReturn:
    """Fail for good."""
    time.sleep(seconds)
    raise PermanentError(f"{key} is refused")


@guarded(reserve=True, on_duplicate="follow_up")
def following(self: Any, key: str, seconds: float = 0.0) -> None:
    """Read the changes, take some time, and write how many there were."""
    changes = Change.objects.filter(key=key).count()
    time.sleep(seconds)
    with self.idempotency.complete():
        Seen.objects.update_or_create(key=key, defaults={"changes": changes})


@guarded(key="records")
def booking(self: Any, records: list[Any], upload: str) -> None:
    """Work on a chunk of a batch: a step of its own, then an effect for each record."""
    batch = self.idempotency.batch
    self.idempotency.step("plan", write, self, upload, f"plan {batch.offset}")
    for record in self.idempotency.records(records):
        with record:
            write(self, upload, f"record {record.index}")


@guarded(key="batch", reserve=True)
def booked(self: Any, batch: str, upload: str) -> None:  # noqa: ARG001  the key of the call
    """Note that a batch has ended."""
    with self.idempotency.complete():
        write(self, upload, "callback")


def _tick(self: Any) -> None:
    """Note the time that this run stands for."""
    write(self, f"every {self.name.rpartition('.')[2]}", str(self.request.periodic_due_at))


@guarded(key=())
def ticking(self: Any) -> None:
    """Run by the clock, under a lease."""
    with self.idempotency.complete():
        _tick(self)


@guarded(key=(), mode="atomic")
def ticking_atomically(self: Any) -> None:
    """Run by the clock, in one transaction."""
    _tick(self)
