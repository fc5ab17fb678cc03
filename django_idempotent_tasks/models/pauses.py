"""The table of pauses: which tasks' calls wait in the ledger, until when and why."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from .fields import MomentField


class Pause(models.Model):
    """Calls of ``task`` wait from ``since`` until ``until``, or until a person resumes the task before that.

    ``scope`` is that of the calls, "" of every scope. The due time of what waits is ``held_at``, far away;
    once the pause is over, the sweeper makes ``rate`` calls a second due. ``drained_at``: none is left.
    """

    id = models.BigAutoField(primary_key=True)
    task = models.CharField(max_length=255)
    scope = models.CharField(max_length=120, blank=True)
    reason = models.CharField(max_length=500)
    paused_by = models.CharField(max_length=150)
    since = MomentField()
    until = MomentField()
    held_at = MomentField()
    rate = models.IntegerField()
    resumed_at = MomentField(null=True)
    resumed_by = models.CharField(max_length=150, null=True)  # noqa: DJ001  NULL: it ends, or ended, by itself
    drained_at = MomentField(null=True)

    class Meta:
        verbose_name = "pause"
        default_permissions = ("view",)
        permissions: ClassVar = [("pause_task", "Can pause and resume tasks")]
        indexes: ClassVar = [models.Index(fields=["drained_at", "task"], name="idem_pause_drained")]

    def __str__(self) -> str:
        return self.task if not self.scope else f"{self.task} ({self.scope})"
