"""The follow-ups that wait: at most one for each key, run once the key's present call has ended."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from ..identity.text import public_text
from .fields import MomentField


class FollowUp(models.Model):
    """The call that is run after the one that has its key now; the primary key lets no second one wait.

    It holds what the key's row gets once that is free. ``due_at``: not to be sent before. No foreign key: a
    follow-up outlives the row that it waits for.
    """

    digest = models.UUIDField(primary_key=True, editable=False)
    due_at = MomentField()
    created_at = MomentField()
    task = models.CharField(max_length=255)
    scope = models.CharField(max_length=120, null=True)  # noqa: DJ001  None and "" are two scopes
    key_text = models.CharField("key", max_length=255)
    task_id = models.CharField(max_length=255)
    fingerprint = models.UUIDField(null=True)
    message = models.TextField()

    class Meta:
        verbose_name = "follow-up"
        default_permissions = ()
        indexes: ClassVar = [models.Index(fields=["task_id"], name="idem_follow_up_task_id")]

    def __str__(self) -> str:
        return f"{self.task} {public_text(self.key_text, self.digest)}"
