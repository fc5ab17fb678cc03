"""The effect of a task. Nothing keeps it from being written twice: that is the ledger's work."""

from __future__ import annotations

from django.db import models


class Effect(models.Model):
    """One thing that a task body did."""

    id = models.BigAutoField(primary_key=True)
    key = models.CharField(max_length=255)
    attempt = models.IntegerField()
    token = models.IntegerField()
    note = models.CharField(max_length=255, default="")

    def __str__(self) -> str:
        return f"{self.key} (attempt {self.attempt})"
