"""The guarded tasks: the business write of the plain one, completed in the ways that a task can."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from django.db import transaction

from django_idempotent_tasks import IdempotentTask
from django_idempotent_tasks.models import IdempotencyKey

from .plain import write_row

_KEY = ("batch", "number")


@shared_task(base=IdempotentTask, bind=True, key=_KEY)
def completes(self: Any, batch: str, number: int, note: str) -> None:  # noqa: ARG001  see plain.write
    """Write and complete in one transaction."""
    with self.idempotency.complete():
        write_row(batch, number)


@shared_task(base=IdempotentTask, bind=True, key=_KEY, sensitive=("note",))
def completes_unstored(self: Any, batch: str, number: int, note: str) -> None:  # noqa: ARG001
    """Write and complete in one transaction; the message is not stored with the claim."""
    with self.idempotency.complete():
        write_row(batch, number)


@shared_task(base=IdempotentTask, bind=True, key=_KEY)
def returns(self: Any, batch: str, number: int, note: str) -> None:  # noqa: ARG001
    """Write, and complete by returning nothing."""
    with transaction.atomic():
        write_row(batch, number)


@shared_task(base=IdempotentTask, bind=True, key=_KEY)
def returns_result(self: Any, batch: str, number: int, note: str) -> dict[str, Any]:  # noqa: ARG001
    """Write, and complete by returning a small result, which is stored."""
    with transaction.atomic():
        write_row(batch, number)
    return {"batch": batch, "number": number, "status": "written"}


@shared_task(base=IdempotentTask, bind=True, key=_KEY, mode="atomic")
def atomic(self: Any, batch: str, number: int, note: str) -> None:  # noqa: ARG001
    """Write in the transaction that claims and completes."""
    write_row(batch, number)


@shared_task(base=IdempotentTask, bind=True, key=_KEY, mode="atomic")
def atomic_result(self: Any, batch: str, number: int, note: str) -> dict[str, Any]:  # noqa: ARG001
    """Write in the transaction that claims, completes and stores a small result."""
    write_row(batch, number)
    return {"batch": batch, "number": number, "status": "written"}


@shared_task(base=IdempotentTask, bind=True, key=_KEY)
def weighs(self: Any, batch: str, number: int, note: str) -> int:  # noqa: ARG001
    """Return how long the message is that was stored with this claim."""
    message = IdempotencyKey.objects.values_list("message", flat=True).get(task_id=self.request.id)
    return len(message or "")


@shared_task(base=IdempotentTask, bind=True)
def registers(self: Any, batch: str, records: list[int]) -> None:
    """Write a chunk of rows, each in the transaction of its record."""
    for record in self.idempotency.records(records):
        with record:
            write_row(batch, record.value)


STEPS = 5


@shared_task(base=IdempotentTask, bind=True, key=_KEY)
def steps(self: Any, batch: str, number: int, note: str) -> None:  # noqa: ARG001
    """Write some rows, each in a step."""
    for part in range(STEPS):
        self.idempotency.step(f"part {part}", write_row, batch, number)


@shared_task(base=IdempotentTask, key=_KEY)
def parts(batch: str, number: int, note: str) -> None:  # noqa: ARG001
    """Write some rows, each in a transaction."""
    for _ in range(STEPS):
        with transaction.atomic():
            write_row(batch, number)
