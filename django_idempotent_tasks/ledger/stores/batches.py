"""Batches in SQL: their chunks, which follow the keys of their calls, and the outcomes of records."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from ...models import DEAD, BatchState, ChunkState
from ...states import Category, State
from ..batch_values import (
    LETTERS,
    NO_OUTCOME,
    OK,
    BatchEntry,
    Chunk,
    Lagging,
    NewBatch,
    NewChunk,
    RecordFailure,
)
from ..values import Claim
from . import statements
from .again import Repeated
from .batch_moves import BatchMoves
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
   AND %(seen)s IN ('', outcomes) AND state IN ({ChunkState.OPEN}, {ChunkState.NEEDS_ATTENTION})
   AND {{bounded}}
"""

_FAILURE = ("place", "category", "attempt", "at", "error", "description", "signature", "value")
KEEP_RECORD = """
INSERT INTO {record} (batch_id, record_index, place, category, attempt, at, error, description, signature,
       value)
VALUES (%(batch)s, %(index)s, %(place)s, %(category)s, %(attempt)s, {now}, %(error)s, %(description)s,
       %(signature)s, %(value)s)
"""
DROP_RECORD = "DELETE FROM {record} WHERE batch_id = %(batch)s AND record_index = %(index)s"

_WITH_KEYS = (
    "c.batch_id, c.place, c.digest, c.state, c.outcomes, k.state, k.token,"
    f" k.discarded_at IS NOT NULL OR k.category = {Category.EXPECTED}"
)
BESIDE_KEYS = f"""
SELECT {_WITH_KEYS} FROM {{chunk}} c LEFT JOIN {{key}} k ON k.digest = c.digest WHERE c.digest IN (DIGESTS)
"""
_HOLDING = "SELECT batch_id, place, digest, state, outcomes FROM {chunk} WHERE state = %(state)s"
#: The rest of one batch, then those behind it: a condition for both would read the batch from its beginning.
PAGE = f"""
SELECT {_WITH_KEYS}
  FROM (SELECT * FROM ({_HOLDING} AND batch_id = %(batch)s AND place > %(place)s
                        ORDER BY place LIMIT %(bite)s) this
         UNION ALL
        SELECT * FROM ({_HOLDING} AND batch_id > %(batch)s ORDER BY batch_id, place LIMIT %(bite)s) behind
         ORDER BY batch_id, place LIMIT %(bite)s) c
  LEFT JOIN {{key}} k ON k.digest = c.digest ORDER BY c.batch_id, c.place
"""

#: The keys that still have the token with which they were read: nobody redrives one before this ends.
SAME = "SELECT k.digest FROM {key} k WHERE k.digest IN (DIGESTS) AND k.token = %(token)s {locked}"
_MOVE = f"""
UPDATE {{chunk}} SET outcomes = CASE WHEN %(to)s = {ChunkState.ENDED}
       THEN replace(outcomes, '{NO_OUTCOME}', '{OK}') ELSE outcomes END, state = %(to)s
 WHERE state = %(seen)s
"""
MOVE = f"{_MOVE} AND digest IN ({SAME})"
MOVE_GONE = f"""
{_MOVE} AND digest IN (DIGESTS) AND NOT EXISTS (SELECT 1 FROM {{key}} k WHERE k.digest = {{chunk}}.digest)
"""
MOVE_THESE = f"{_MOVE} AND digest IN (DIGESTS)"

#: What holds a batch, in the order in which pages are read.
HOLDING = (ChunkState.OPEN, ChunkState.NEEDS_ATTENTION)
_ENDS = {State.SUCCEEDED: ChunkState.ENDED, State.CANCELLED: ChunkState.CANCELLED}
_BEGIN = (int(HOLDING[0]), UUID(int=0), -1)


class Change(NamedTuple):
    """How chunks stood and are to stand, and the token of their keys, None where these are gone."""

    seen: ChunkState
    to: ChunkState
    token: int | None


class Batches(BatchMoves, Repeated):
    """Adds batches."""

    insert, open_page, page = ADD, OPEN, PAGE

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
        return self._count_last(KEEP_OUTCOMES, claim, outcomes=outcomes, seen=seen) == 1

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

    def follow_chunks(self, digests: Collection[UUID]) -> set[UUID]:
        moved: set[UUID] = set()
        for bite in bites(sorted(digests), ROWS):
            moved |= self._follow_keys(self._of_many(BESIDE_KEYS, bite))
        return moved

    def _follow_keys(self, rows: Sequence[Row]) -> set[UUID]:
        """Move the chunks of these rows that are not where their keys are, each kind with one statement."""
        changes: dict[Change, dict[UUID, UUID]] = defaultdict(dict)
        for batch, _, digest, state, outcomes, *key in rows:
            change = Change(ChunkState(state), _target(ChunkState(state), outcomes, *key), key[1])
            if change.to is not change.seen:
                changes[change][UUID(str(digest))] = UUID(str(batch))
        for change, chunks in changes.items():
            self._move(change, chunks)
        return {batch for chunks in changes.values() for batch in chunks.values()}

    def _move(self, change: Change, chunks: Mapping[UUID, UUID]) -> None:
        if change.seen in HOLDING:
            self._move_chunks(change, list(chunks))
            return
        with self.together():  # a redrive after the end: whoever is about to finish the batch must not
            self._reopen(set(chunks.values()))
            self._move_chunks(change, list(chunks))

    def _move_chunks(self, change: Change, digests: list[UUID]) -> None:
        names, listed = self._digests(digests)
        named = {"seen": int(change.seen), "to": int(change.to), "token": change.token}
        template = self.dialect.sql(MOVE_GONE if change.token is None else MOVE)
        self._count(template.replace("DIGESTS", names), listed | named)

    def lagging_chunks(self, *, after: tuple[int, UUID, int] | None, bite: int) -> Lagging:
        state, batch, place = after or _BEGIN
        named = {"state": state, "batch": self.dialect.uuid(batch), "place": place, "bite": bite}
        rows = self._rows(self.page, named)
        digests = [
            UUID(str(digest))
            for _, _, digest, state, outcomes, *key in rows
            if _target(ChunkState(state), outcomes, *key) != state
        ]
        if len(rows) == bite:
            return Lagging(digests, (state, UUID(str(rows[-1][0])), rows[-1][1]))
        is_last = state == HOLDING[-1]
        return Lagging(digests, None if is_last else (int(HOLDING[-1]), *_BEGIN[1:]))

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


def _target(
    seen: ChunkState, outcomes: str, state: int | None, _token: int | None, needs_nobody: object
) -> ChunkState:
    """Where a chunk is to be, by the state of its key; an expected end counts as one that was discarded."""
    if seen is ChunkState.ENDED:
        return seen
    if state is None:
        has_ended = NO_OUTCOME not in outcomes
        return seen if seen not in HOLDING else ChunkState.ENDED if has_ended else ChunkState.DISCARDED
    if state in DEAD:
        return ChunkState.DISCARDED if needs_nobody else ChunkState.NEEDS_ATTENTION
    return _ENDS.get(State(state), ChunkState.OPEN)


def _to_chunk(row: Row) -> Chunk:
    batch, place, digest, task_id, first, size, indexes, state, outcomes = row
    listed = None if indexes is None else tuple(json.loads(indexes))
    ids = UUID(str(batch)), place, UUID(str(digest))
    return Chunk(*ids, task_id, first, size, listed, ChunkState(state), outcomes)
