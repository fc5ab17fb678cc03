"""Sets up what runs once: data, not settings, since its time is a matter of the installation."""

from __future__ import annotations

from datetime import datetime

from django_celery_beat.models import ClockedSchedule, PeriodicTask

from .tasks import open_the_books

NAME = "Open the books"


def open_the_books_at(moment: datetime) -> PeriodicTask:
    """Have the first balance made at ``moment`` (aware); beat disables the entry when it has sent it."""
    clocked, _ = ClockedSchedule.objects.get_or_create(clocked_time=moment)
    entry: PeriodicTask = PeriodicTask.objects.create(
        name=NAME, task=open_the_books.name, clocked=clocked, one_off=True
    )
    return entry
