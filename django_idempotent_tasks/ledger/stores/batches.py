"""Batches in SQL: their chunks, which follow the keys of their calls, and the outcomes of records."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from uuid import UUID

from ...models import BatchState, ChunkState
from ..batch_values import (
    LETTERS,
    NO_OUTCOME,
    BatchEntry,
    Chunk,
    NewBatch,
    NewChunk,
    RecordFailure,
)
from ..values import Claim
from . import statements
from .again import Repeated
from .chunk_states import ChunkStates
from .many_sql import ROWS, bites
from .reading import Parameters, Row

ADD = f"""
INSERT INTO {{batch}} (id, created_at, state, revision, task, scope, key_text, chunk_size, records, chunks,
       callback, on_attention, template)
SELECT %(id)s, {{now}}, {BatchState.SUBMITTING}, 1, %(task)s, %(scope)s, %(key_text)s, %(chunk_size)s, 0, 0,
       %(callback)s, %(on_attention)s, %(template)s WHERE true
ON CONFLICT (id) DO NOTHING
"""

LOCK = """
SELECT b.state, b.revision, b.sealed_at IS NOT NULL, COALESCE(b.due_at <= {now}, {false}), b.task, b.scope,
       b.key_text, b.chunk_size, b.records, b.chunks
  FROM {batch} b WHERE b.id = %(batch)s {locked}
"""
#: A statement of its own: one that has waited for the batch's row still sees the chunks of before the wait.
NEXT_PLACE = "SELECT COALESCE(MAX(place), -1) + 1 FROM {chunk} WHERE batch_id = %(batch)s"

AT = "SELECT place, fingerprint FROM {chunk} WHERE batch_id = %(batch)s AND place IN (PLACES)"

ADD_CHUNKS = """
INSERT INTO {chunk} (batch_id, place, digest, task_id, first, size, indexes, fingerprint, token, state,
       outcomes)
VALUES """
CHUNK = (
    f"(%(batch)s, %(place)s, %(digest)s, %(task_id)s, %(first)s, %(size)s, %(indexes)s, %(fingerprint)s,"
    f" 0, {ChunkState.OPEN}, %(outcomes)s)"
)

_COLUMNS = "batch_id, place, digest, task_id, first, size, indexes, state, outcomes"
_CHUNK = f"SELECT {_COLUMNS} FROM {{chunk}}"
OF_KEY = f"{_CHUNK} WHERE digest = %(digest)s"
OPEN = f"""
{_CHUNK} WHERE batch_id = %(batch)s AND state = {ChunkState.OPEN} AND place > %(after)s
 ORDER BY place LIMIT %(bite)s
"""

#: The lock on the key's row: nobody takes it over meanwhile. Who has taken it over waits here for the record
#: that the owner before has written and not committed, and from then on that one writes no other.
OWNER = f"SELECT k.digest FROM {{key}} k WHERE {statements.OWNED} AND {{bounded}} {{locked}}"
HOLD = f"UPDATE {{chunk}} SET token = %(token)s WHERE digest = ({OWNER}) RETURNING {_COLUMNS}"

KEEP_OUTCOMES = f"""
UPDATE {{chunk}} SET outcomes = %(outcomes)s
 WHERE digest = %(digest)s AND token = %(token)s
   AND state IN ({ChunkState.OPEN}, {ChunkState.NEEDS_ATTENTION}) AND {{bounded}}
"""
KEEP_CHANGED = f"{KEEP_OUTCOMES.rstrip()} AND outcomes = %(seen)s\n"

_FAILURE = ("place", "category", "attempt", "at", "error", "description", "signature", "value")
KEEP_RECORD = """
INSERT INTO {record} (batch_id, record_index, place, category, attempt, at, error, description, signature,
       value)
VALUES (%(batch)s, %(index)s, %(place)s, %(category)s, %(attempt)s, {now}, %(error)s, %(description)s,
       %(signature)s, %(value)s)
"""
DROP_RECORD = "DELETE FROM {record} WHERE batch_id = %(batch)s AND record_index = %(index)s"


class Batches(ChunkStates, Repeated):
    """Adds batches."""

    insert, open_page = ADD, OPEN

    def add_batch(self, new: NewBatch) -> bool:
        named = {
            "id": self.dialect.uuid(new.id),
            "task": new.task,
            "scope": new.scope,
            "key_text": new.key_text,
            "chunk_size": new.chunk_size,
            "callback": new.callback,
            "on_attention": new.on_attention,
            "template": new.template,
        }
        return self._count(self.insert, named) == 1

    def lock_batch(self, batch: UUID) -> BatchEntry | None:
        self._write_first()
        row = self._row(LOCK, self._batch(batch))
        if row is None:
            return None
        state, revision, is_sealed, is_past, *rest = row
        return BatchEntry(batch, BatchState(state), revision, bool(is_sealed), bool(is_past), *rest)

    def next_place(self, batch: UUID) -> int:
        ((place,),) = self._rows(NEXT_PLACE, self._batch(batch))
        return int(place)

    def chunks_at(self, batch: UUID, places: Collection[int]) -> dict[int, UUID]:
        if not places:
            return {}
        listed: Parameters = {f"p{number}": place for number, place in enumerate(places)}
        names = ", ".join(f"%({name})s" for name in listed)
        rows = self._rows(AT.replace("PLACES", names), listed | {"batch": self.dialect.uuid(batch)})
        return {place: UUID(str(fingerprint)) for place, fingerprint in rows}

    def add_chunks(self, batch: UUID, chunks: Sequence[NewChunk]) -> None:
        for bite in bites((self._chunk_parameters(batch, chunk) for chunk in chunks), ROWS):
            self._count(*self._inserting(ADD_CHUNKS, CHUNK, "", bite))

    def chunk_of(self, digest: UUID) -> Chunk | None:
        row = self._row(OF_KEY, {"digest": self.dialect.uuid(digest)})
        return None if row is None else _to_chunk(row)

    def hold_chunk(self, claim: Claim) -> Chunk | None:
        row = self._row(HOLD, self._of_claim(claim))
        return None if row is None else _to_chunk(row)

    def _of_claim(self, claim: Claim) -> Parameters:
        return {"digest": self.dialect.uuid(claim.digest), "token": claim.token, "owner": claim.owner}

    def open_chunks(self, batch: UUID, *, after: int, bite: int) -> list[Chunk]:
        named = {"batch": self.dialect.uuid(batch), "after": after, "bite": bite}
        return [_to_chunk(row) for row in self._rows(self.open_page, named)]

    def keep_outcomes(self, claim: Claim, *, outcomes: str, seen: str = "") -> bool:
        if not LETTERS.issuperset(outcomes + seen):
            raise ValueError(f"These are no outcomes: {ascii(outcomes + seen)[:60]}")
        if not seen:
            return self._count_last(KEEP_OUTCOMES, claim, outcomes=outcomes) == 1
        return self._count_last(KEEP_CHANGED, claim, outcomes=outcomes, seen=seen) == 1

    def keep_record(self, batch: UUID, record: RecordFailure) -> None:
        named = {
            "batch": self.dialect.uuid(batch),
            "index": record.index,
            "place": record.place,
            "category": int(record.category),
            "attempt": record.attempt,
            "error": record.error,
            "description": record.description,
            "signature": record.signature,
            "value": record.value,
        }
        self._count(KEEP_RECORD + self.dialect.upsert(("batch_id", "record_index"), _FAILURE), named)

    def drop_record(self, batch: UUID, index: int) -> None:
        self._count(DROP_RECORD, {"batch": self.dialect.uuid(batch), "index": index})

    def _chunk_parameters(self, batch: UUID, chunk: NewChunk) -> Parameters:
        return {
            "batch": self.dialect.uuid(batch),
            "place": chunk.place,
            "digest": self.dialect.uuid(chunk.digest),
            "task_id": chunk.task_id,
            "first": chunk.first,
            "size": chunk.size,
            "indexes": None if chunk.indexes is None else json.dumps(chunk.indexes),
            "fingerprint": self.dialect.uuid(chunk.fingerprint),
            "outcomes": NO_OUTCOME * chunk.size,
        }


def _to_chunk(row: Row) -> Chunk:
    batch, place, digest, task_id, first, size, indexes, state, outcomes = row
    listed = None if indexes is None else tuple(json.loads(indexes))
    ids = UUID(str(batch)), place, UUID(str(digest))
    return Chunk(*ids, task_id, first, size, listed, ChunkState(state), outcomes)
