"""The table of hourly totals, for charts that need not read the keys."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from .fields import MomentField

#: The task of the row that says that an hour was counted, also an hour in which no key was made.
COUNTED = ""

#: Upper bounds in seconds of the buckets in which runs and waits are counted; one more has what is longer.
BOUNDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3600.0)


class HourlyCount(models.Model):
    """The totals of one task's keys that were made in one hour; the sweeper writes them afterwards.

    ``succeeded``: with a result, or with an error that the task expects; ``failed``: the dead letters.
    Runs: the last attempts of leased runs that their owners ended. Waits: from a reservation to its first
    attempt. ``would_refuse``: calls that ran in shadow mode; they are not among the duplicates. Times are in
    seconds. Buckets are a JSON list of counts, one more than ``BOUNDS``; None in an hour that an older
    version has counted.
    """

    id = models.BigAutoField(primary_key=True)
    hour = MomentField()
    task = models.CharField(max_length=255)
    created = models.IntegerField()
    succeeded = models.IntegerField()
    failed = models.IntegerField()
    duplicates = models.IntegerField()
    crashes = models.IntegerField()
    run_count = models.IntegerField(db_default=0)
    run_seconds = models.FloatField(db_default=0.0)
    run_max = models.FloatField(db_default=0.0)
    run_buckets = models.CharField(max_length=255, null=True)  # noqa: DJ001
    wait_count = models.IntegerField(db_default=0)
    wait_seconds = models.FloatField(db_default=0.0)
    wait_max = models.FloatField(db_default=0.0)
    wait_buckets = models.CharField(max_length=255, null=True)  # noqa: DJ001
    would_refuse = models.IntegerField(db_default=0)
    last_failure_at = MomentField(null=True)

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
