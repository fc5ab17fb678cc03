"""The table of hourly totals, for charts that need not read the keys."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from .fields import MomentField

#: The task of the row that says that an hour was counted, also an hour in which no key was made.
COUNTED = ""


class HourlyCount(models.Model):
    """The totals of one task's keys that were made in one hour; the sweeper writes them afterwards."""

    id = models.BigAutoField(primary_key=True)
    hour = MomentField()
    task = models.CharField(max_length=255)
    created = models.IntegerField()
    succeeded = models.IntegerField()
    failed = models.IntegerField()
    duplicates = models.IntegerField()
    crashes = models.IntegerField()

    class Meta:
        verbose_name = "hourly count"
        constraints: ClassVar = [models.UniqueConstraint(fields=["hour", "task"], name="idem_hourly_task")]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H:00} {self.task}"


class Dashboard(HourlyCount):
    """The dashboard's place in the admin; whoever may see keys may see it."""

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name = "dashboard"
        verbose_name_plural = "dashboard"
