"""The tables of batches: one row a batch, one for each of its chunks, one for each record that failed."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from ..identity.text import public_text
from .fields import MomentField


class BatchState(models.IntegerChoices):
    """Where a batch stands. The numbers are stored, so they never change."""

    SUBMITTING = 1, "submitting"
    RUNNING = 2, "running"
    NEEDS_ATTENTION = 3, "needs attention"
    FINISHED = 4, "finished"
    CANCELLED = 5, "cancelled"


class ChunkState(models.IntegerChoices):
    """Where a chunk stands, as the batch counts it. The numbers are stored, so they never change."""

    OPEN = 1, "open"
    ENDED = 2, "ended"
    NEEDS_ATTENTION = 3, "needs attention"
    DISCARDED = 4, "discarded"
    CANCELLED = 5, "cancelled"


class Batch(models.Model):
    """Many records that one task works on, a chunk of them a call.

    ``records`` and ``chunks`` are what was submitted, 0 until ``sealed_at``. ``revision`` grows whenever
    more work is added or taken away, so that nobody finishes a batch that somebody has just reopened.
    ``callback`` and ``on_attention`` are prepared calls; the first is reserved at ``called_at``. ``template``
    is a message with the arguments and options that every chunk's call has beside its records.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    created_at = MomentField()
    sealed_at = MomentField(null=True)
    attention_at = MomentField(null=True)
    finished_at = MomentField(null=True)
    called_at = MomentField(null=True)
    due_at = MomentField(null=True)
    state = models.SmallIntegerField(choices=BatchState.choices)
    revision = models.IntegerField()
    task = models.CharField(max_length=255)
    scope = models.CharField(max_length=120, null=True)  # noqa: DJ001  None and "" are two scopes
    key_text = models.CharField("key", max_length=255)
    chunk_size = models.IntegerField()
    records = models.IntegerField()
    chunks = models.IntegerField()
    reason = models.CharField(max_length=500, null=True)  # noqa: DJ001  NULL: nobody cancelled it
    cancelled_by = models.CharField(max_length=150, null=True)  # noqa: DJ001  the same
    callback = models.TextField(null=True)  # noqa: DJ001  NULL: none was asked for
    on_attention = models.TextField(null=True)  # noqa: DJ001  the same
    template = models.TextField(null=True)  # noqa: DJ001  NULL: no text can hold it

    class Meta:
        verbose_name = "batch"
        verbose_name_plural = "batches"
        permissions: ClassVar = [
            ("cancel_batch", "Can cancel batches"),
            ("redrive_batch", "Can redrive batches"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["state", "created_at"], name="idem_batch_state_created"),
            models.Index(fields=["due_at"], name="idem_batch_due"),
        ]

    def __str__(self) -> str:
        return f"{self.task} {public_text(self.key_text, self.id)}"


class BatchChunk(models.Model):
    """Some records of a batch, which one call works on; the row of its key says how the call stands.

    ``first`` is the index of its first record in the batch. ``indexes`` is the JSON list of all of them
    where they do not follow each other. ``outcomes`` has a character for each record, and is written by the
    attempt whose fencing token is ``token``: 0 before a first one. No foreign key: the statements that prune
    a batch delete its chunks.
    """

    id = models.BigAutoField(primary_key=True)
    batch_id = models.UUIDField()
    place = models.IntegerField()
    digest = models.UUIDField()
    task_id = models.CharField(max_length=255)
    first = models.IntegerField()
    size = models.IntegerField()
    indexes = models.TextField(null=True)  # noqa: DJ001  NULL: from the first on
    fingerprint = models.UUIDField()
    token = models.IntegerField()
    state = models.SmallIntegerField(choices=ChunkState.choices)
    outcomes = models.TextField()

    class Meta:
        verbose_name = "chunk"
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["batch_id", "place"], name="idem_chunk_once"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["digest"], name="idem_chunk_digest"),
            models.Index(fields=["state", "batch_id", "place"], name="idem_chunk_state"),
        ]

    def __str__(self) -> str:
        return f"chunk {self.place} of {self.batch_id}"


class BatchRecord(models.Model):
    """A record that did not end well; ``index`` counts from 0 through the whole batch.

    ``value`` is the record's JSON text. No foreign key: the statements that prune a batch delete it.
    """

    id = models.BigAutoField(primary_key=True)
    batch_id = models.UUIDField()
    index = models.IntegerField(db_column="record_index")  # "index" is a word of SQL
    place = models.IntegerField()
    category = models.SmallIntegerField()
    attempt = models.SmallIntegerField()
    at = MomentField()
    error = models.CharField(max_length=255)
    description = models.TextField()
    signature = models.CharField(max_length=16)
    value = models.TextField(null=True)  # noqa: DJ001  NULL: the record is not kept

    class Meta:
        verbose_name = "failed record"
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["batch_id", "index"], name="idem_record_once"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["batch_id", "category", "signature"], name="idem_record_signature"),
        ]

    def __str__(self) -> str:
        return f"record {self.index} of {self.batch_id}: {self.error}"
