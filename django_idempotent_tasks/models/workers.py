"""The table of workers: what each worker process says about itself while it lives."""

from __future__ import annotations

from django.db import models

from .fields import MomentField

#: Seconds without a word after which a worker no longer counts as alive. It writes every 10 seconds.
WORKER_SILENT_AFTER = 60


class Worker(models.Model):
    """One worker, from its start to its end. Nothing is decided by it: people read who does what.

    ``instance`` is how the owner ids of its claims begin. ``queues`` are those that it takes messages from
    now, ``tasks`` the guarded tasks that it knows: JSON lists. ``stopped_at`` is None while it lives, and
    after an end of which it could say nothing.
    """

    instance = models.CharField(max_length=32, primary_key=True)
    name = models.CharField(max_length=255)
    host = models.CharField(max_length=255)
    pid = models.IntegerField()
    pool = models.CharField(max_length=80)
    concurrency = models.IntegerField()
    queues = models.TextField()
    tasks = models.TextField()
    version = models.CharField(max_length=40)
    started_at = MomentField()
    seen_at = MomentField()
    stopped_at = MomentField(null=True)

    class Meta:
        verbose_name = "worker"
        default_permissions = ()

    def __str__(self) -> str:
        return self.name
