"""How far beat has come: one row a periodic task."""

from __future__ import annotations

from django.db import models


class BeatCursor(models.Model):
    """The nominal time of a periodic task's last occurrence; the next one is computed from it alone.

    ``last_due_at`` is NULL until the first one. ``schedule`` tells whether the schedule was edited, or
    the entry enabled again: what came before that is not missed.
    """

    periodic_task_id = models.BigIntegerField(primary_key=True)
    last_due_at = models.DateTimeField(null=True)
    schedule = models.CharField(max_length=64)
    last_digest = models.UUIDField(null=True)
    updated_at = models.DateTimeField()

    class Meta:
        verbose_name = "beat cursor"

    def __str__(self) -> str:
        return str(self.periodic_task_id)
