"""Adds a chunk to a batch that was submitted before, for records that are to run again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from celery.utils import uuid

from ..exceptions import ConfigurationError
from ..ledger import batches
from ..ledger.batch_keys import chunk_digest, chunk_key, content_of
from ..ledger.batch_values import BatchEntry, NewChunk
from ..ledger.stores import LedgerStore
from ..messages.message import Message
from .many import Many, reserve_many


@dataclass(frozen=True, slots=True)
class FurtherChunk:
    """A chunk that was added; its call is sent after the commit."""

    task: Any
    store: LedgerStore
    digest: UUID
    many: Many

    def run_here(self) -> None:
        """In eager mode: run the call. To be asked for after the transaction that added the chunk."""
        if self.task.app.conf.task_always_eager:
            self.many.run_here()
            batches.publish(self.task.app, self.store, batches.follow(self.store, [self.digest]))


def add_further(
    store: LedgerStore, task: Any, batch: BatchEntry, records: Mapping[int, Any], *, template: str
) -> FurtherChunk:
    """Add a chunk of these records, by their index, behind the last one; the batch's row is locked.

    ``template`` is the batch's. Raises :class:`PayloadTooLarge` for records that are too large together, and
    as ``submit_many`` does.
    """
    policy, through = task.idempotency_reserving()
    like = Message.decode(task.name, template)
    place, indexes, task_id = store.next_place(batch.id), tuple(records), uuid()
    call = {
        "kwargs": {**like.kwargs, "records": list(records.values())},
        "idempotency_key": chunk_key(batch.id, place),
        "task_id": task_id,
    }
    many = reserve_many(task, policy, [call], {**like.options, "scope": batch.scope}, through)
    if not many.submissions[0].created:
        msg = f"{task.name}: another call has the key of chunk {place} of batch {batch.id}."
        raise ConfigurationError(msg)
    digest = chunk_digest(task.name, batch.id, place, scope=batch.scope)
    fingerprint = UUID(bytes=content_of(records.items(), like.kwargs)[0][:16])
    store.add_chunks(
        batch.id, [NewChunk(place, digest, task_id, indexes[0], len(indexes), fingerprint, indexes)]
    )
    return FurtherChunk(task, store, digest, many)
