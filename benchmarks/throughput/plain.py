"""The plain tasks: a business write without a guard, and the mark before and after a measured queue."""

from __future__ import annotations

from celery import shared_task
from django.db import transaction

from ..models import Work


def write_row(batch: str, number: int) -> None:
    """The business write, the same in every task."""
    Work.objects.create(batch=batch, number=number)


@shared_task
def write(batch: str, number: int, note: str) -> None:  # noqa: ARG001  makes messages equally long
    """Write one row in a transaction."""
    with transaction.atomic():
        write_row(batch, number)


@shared_task
def mark(batch: str, number: int) -> None:
    """Write down when the queue came to this place."""
    write_row(batch, number)


@shared_task
def write_chunk(batch: str, records: list[int]) -> None:
    """Write a chunk of rows, each in a transaction of its own."""
    for number in records:
        with transaction.atomic():
            write_row(batch, number)
