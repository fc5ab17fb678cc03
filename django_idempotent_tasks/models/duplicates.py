"""The table of refused duplicates, one row each; the sweeper adds them to the count of their key."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from .fields import MomentField


class DuplicateAttempt(models.Model):
    """A call that was refused because its key was taken. No foreign key: the row outlives its key."""

    id = models.BigAutoField(primary_key=True)
    digest = models.UUIDField()
    scope = models.CharField(max_length=120, null=True)  # noqa: DJ001  None and "" are two scopes
    task_id = models.CharField(max_length=255)
    place = models.CharField(max_length=16)
    reason = models.CharField(max_length=32)
    at = MomentField()
    summed = models.BooleanField(default=False)

    class Meta:
        verbose_name = "duplicate attempt"
        indexes: ClassVar = [
            models.Index(fields=["digest"], name="idem_duplicate_digest"),
            models.Index(fields=["summed", "id"], name="idem_duplicate_summed"),
        ]

    def __str__(self) -> str:
        return f"{self.task_id} ({self.reason})"
