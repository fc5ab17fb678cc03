"""The business of the benchmarks: one row a task."""

from __future__ import annotations

from typing import ClassVar, Self

from django.db import models
from django.db.models.functions import Now


class Work(models.Model):
    """What one task wrote, and when by the clock of the database."""

    id = models.BigAutoField(primary_key=True)
    batch = models.CharField(max_length=40)
    number = models.IntegerField()
    at = models.DateTimeField(db_default=Now())

    objects: ClassVar[models.Manager[Self]] = models.Manager()

    def __str__(self) -> str:
        return f"{self.batch} {self.number}"
