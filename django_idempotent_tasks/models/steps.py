"""The steps of long tasks: one row for each step whose value is kept."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from ..identity.text import STEP_NAME_LENGTH
from .fields import MomentField


class Step(models.Model):
    """One finished step of a key's present work. ``value`` is its JSON text, NULL where it returned None.

    ``token`` and ``attempt`` are those of the attempt that took the step. No foreign key: the statements
    that prune a key, or give it to new work, delete its steps.
    """

    id = models.BigAutoField(primary_key=True)
    digest = models.UUIDField()
    generation = models.IntegerField()
    name = models.CharField(max_length=STEP_NAME_LENGTH)
    token = models.IntegerField()
    attempt = models.SmallIntegerField()
    started_at = MomentField()
    finished_at = MomentField()
    value = models.TextField(null=True)  # noqa: DJ001  None and "" are two values

    class Meta:
        verbose_name = "step"
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["digest", "generation", "name"], name="idem_step_once"),
        ]

    def __str__(self) -> str:
        return self.name
