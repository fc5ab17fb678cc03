"""The tables of keys, one row each, and of the calls whose key a later call has taken."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from ..identity.text import public_text
from ..states import State
from .fields import MomentField

STATES = [(state.value, state.name.lower()) for state in State]


class IdempotencyKey(models.Model):
    """One piece of work: its unique digest is the guarantee, the other columns say how far the work is.

    Two moments: from ``open_at`` on a claim is allowed (end of the lease, time of the retry, end of the
    retention), and only claims read it; at ``due_at`` the sweeper must look at the key. ``lease_seconds`` is
    what the last claim was given: 0 before a first one, and for an atomic run.
    """

    digest = models.UUIDField(primary_key=True, editable=False)
    due_at = MomentField(null=True)
    open_at = MomentField(null=True)
    created_at = MomentField()
    started_at = MomentField(null=True)
    finished_at = MomentField(null=True)
    token = models.IntegerField()
    generation = models.IntegerField()
    lease_seconds = models.IntegerField()
    duplicates = models.IntegerField()
    state = models.SmallIntegerField(choices=STATES)
    reason = models.SmallIntegerField()
    attempts = models.SmallIntegerField()
    crashes = models.SmallIntegerField()
    sends = models.SmallIntegerField()
    in_external = models.BooleanField()
    task = models.CharField(max_length=255)
    scope = models.CharField(max_length=120, null=True)  # noqa: DJ001  None and "" are two scopes
    key_text = models.CharField("key", max_length=255)
    task_id = models.CharField(max_length=255)
    runner_task_id = models.CharField(max_length=255, null=True)  # noqa: DJ001  NULL costs one bit
    owner = models.CharField(max_length=80, null=True)  # noqa: DJ001
    fingerprint = models.UUIDField(null=True)
    category = models.SmallIntegerField(null=True)
    signature = models.CharField(max_length=16, null=True)  # noqa: DJ001
    discarded_at = MomentField(null=True)
    progress = models.CharField(max_length=400, null=True)  # noqa: DJ001
    message = models.TextField(null=True)  # noqa: DJ001
    result = models.TextField(null=True)  # noqa: DJ001

    class Meta:
        verbose_name = "idempotency key"
        permissions: ClassVar = [
            ("release_key", "Can take a key from its holder"),
            ("cancel_key", "Can cancel keys"),
            ("retry_key", "Can have a waiting retry run now"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["state", "due_at"], name="idem_key_state_due"),
            models.Index(fields=["task_id"], name="idem_key_task_id"),
            models.Index(fields=["created_at"], name="idem_key_created"),
            models.Index(
                fields=["signature", "finished_at"],
                name="idem_key_dead_letters",
                condition=Q(signature__isnull=False, discarded_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task} {public_text(self.key_text, self.digest)}"


class AnsweredCall(models.Model):
    """How an accepted call ended whose key another call then claimed.

    Kept for ``REDELIVERY_WINDOW``, so that a late copy of the replaced call gets its answer and
    never runs again.
    """

    id = models.BigAutoField(primary_key=True)
    digest = models.UUIDField()
    task_id = models.CharField(max_length=255)
    generation = models.IntegerField()
    state = models.SmallIntegerField(choices=STATES)
    reason = models.SmallIntegerField()
    result = models.TextField(null=True)  # noqa: DJ001
    due_at = MomentField()

    class Meta:
        verbose_name = "answered call"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["task_id", "digest"], name="idem_answered_call"),
        ]
        indexes: ClassVar = [models.Index(fields=["due_at"], name="idem_answered_due")]

    def __str__(self) -> str:
        return self.task_id
