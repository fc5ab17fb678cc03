"""The table of beat's cursors: one row for each periodic task, with its last occurrence."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from .fields import MomentField


class BeatCursor(models.Model):
    """The nominal time of a periodic task's last occurrence; the next one is computed from it alone.

    ``last_due_at`` is NULL until the first occurrence. ``schedule`` is the fingerprint of the schedule: if
    it was edited, or the entry enabled again, earlier times do not count as missed.

    The other columns are for people: when the next occurrence is due, the keys of the last ones (``recent``,
    JSON), how many were passed over, and whether an ordinary beat runs too: such a beat has written a
    ``last_run_at`` (kept as ``stranger_at``) that our beat did not write (``ran_at``).
    """

    periodic_task_id = models.BigIntegerField(primary_key=True)
    last_due_at = MomentField(null=True)
    schedule = models.CharField(max_length=64)
    last_digest = models.UUIDField(null=True)
    updated_at = MomentField()
    # Nullable or with a default: a beat of an older version may run on, and writes none of these.
    next_due_at = MomentField(null=True)
    recent = models.TextField(null=True)  # noqa: DJ001  NULL: nothing was sent yet
    passed_over = models.IntegerField(default=0, db_default=0)
    passed_over_at = MomentField(null=True)
    ran_at = MomentField(null=True)
    stranger_at = MomentField(null=True)

    #: The periodic task, if a page has read it; not a column.
    entry: Any = None

    class Meta:
        verbose_name = "beat cursor"
        verbose_name_plural = "periodic runs"
        permissions: ClassVar = [("run_periodic", "Can run a periodic task now")]
        indexes: ClassVar = [
            models.Index(fields=["next_due_at"], name="idem_beat_next_due"),
            models.Index(fields=["stranger_at"], name="idem_beat_stranger"),
        ]

    def __str__(self) -> str:
        return str(self.periodic_task_id if self.entry is None else self.entry.name)
