"""The table of redrive operations: who began each and why, and how far it is."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from .fields import MomentField


class OperationState(models.IntegerChoices):
    """Where a redrive operation stands. The numbers are stored, so they never change."""

    RUNNING = 1, "running"
    DONE = 2, "done"
    STOPPED = 3, "stopped"


class RedriveOperation(models.Model):
    """A redrive of a selection of dead letters; the sweeper carries it out, one signature after another.

    It redrives only dead letters that had ended when it began, so none twice. ``rate`` is in keys a second;
    None is no limit.
    """

    id = models.BigAutoField(primary_key=True)
    created_at = MomentField()
    created_by = models.CharField(max_length=150)
    reason = models.CharField(max_length=500)
    selection = models.TextField()
    rate = models.IntegerField(null=True)
    total = models.IntegerField()
    redriven = models.IntegerField(default=0)
    skipped = models.IntegerField(default=0)
    last_signature = models.CharField(max_length=16, null=True)  # noqa: DJ001  NULL: nothing was done yet
    last_at = MomentField(null=True)
    last_digest = models.UUIDField(null=True)
    state = models.SmallIntegerField(choices=OperationState.choices, default=OperationState.RUNNING)
    finished_at = MomentField(null=True)
    stopped_by = models.CharField(max_length=150, null=True)  # noqa: DJ001  NULL: nobody did

    class Meta:
        verbose_name = "redrive operation"
        indexes: ClassVar = [models.Index(fields=["state", "id"], name="idem_redrive_state")]

    def __str__(self) -> str:
        return f"redrive {self.id} of {self.total}"
