"""The end of a batch in SQL: one statement finishes it, whoever sees its last chunk end."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple
from uuid import UUID

from ...models import BatchState, ChunkState
from ..batch_values import Settled
from .many_sql import Many
from .reading import Parameters, Row

#: How often a settlement looks again when another one was faster.
LOOKS = 5


def _has(state: ChunkState) -> str:
    """Whether the batch has such a chunk, by one look into the index.

    For EXISTS a planner who takes nearly all chunks for open ones would read the table from its beginning,
    past all that have ended. The last chunks are open the longest.
    """
    found = f"SELECT c.place FROM {{chunk}} c WHERE c.batch_id = b.id AND c.state = {state}"
    return f"({found} ORDER BY c.place DESC LIMIT 1) IS NOT NULL"


HAS_OPEN, HAS_ATTENTION = _has(ChunkState.OPEN), _has(ChunkState.NEEDS_ATTENTION)
HAS_NO_OPEN, HAS_NO_ATTENTION = (f"NOT ({each})" for each in (HAS_OPEN, HAS_ATTENTION))

LOOK = f"""
SELECT b.state, b.revision, b.sealed_at IS NOT NULL, b.attention_at IS NOT NULL, b.called_at IS NOT NULL,
       b.due_at IS NOT NULL, {HAS_OPEN}, {HAS_ATTENTION}
  FROM {{batch}} b WHERE b.id = %(batch)s
"""

_SEEN = "WHERE id = %(batch)s AND state = %(seen)s AND revision = %(revision)s"
FINISH = f"""
UPDATE {{batch}} SET finished_at = {{now}}, due_at = {{after[kept]}},
       called_at = COALESCE(called_at, {{now}}), state = {BatchState.FINISHED}
 {_SEEN}
"""
NOTE = f"""
UPDATE {{batch}} SET state = %(state)s,
       attention_at = CASE WHEN %(told)s = 1 THEN COALESCE(attention_at, {{now}}) ELSE attention_at END
 {_SEEN}
"""
PAST = f"UPDATE {{batch}} SET due_at = {{after[kept]}} {_SEEN} AND due_at IS NULL"
CALLS = "SELECT callback, on_attention FROM {batch} WHERE id = %(batch)s"

SEAL = f"""
UPDATE {{batch}} SET records = %(records)s, chunks = %(chunks)s, sealed_at = {{now}},
       state = {BatchState.RUNNING}
 WHERE id = %(batch)s AND state = {BatchState.SUBMITTING}
"""

_RUNS_AGAIN = f"""
       due_at = NULL, finished_at = NULL, revision = revision + 1,
       state = CASE WHEN sealed_at IS NULL THEN {BatchState.SUBMITTING} ELSE {BatchState.RUNNING} END
"""
REOPEN = f"""
UPDATE {{batch}} SET {_RUNS_AGAIN}
 WHERE id = %(batch)s AND revision = %(revision)s AND state <> {BatchState.CANCELLED}
"""
REOPEN_MANY = f"""
UPDATE {{batch}} SET {_RUNS_AGAIN} WHERE id IN (DIGESTS) AND state <> {BatchState.CANCELLED}
"""

CANCEL = f"""
UPDATE {{batch}} SET cancelled_by = %(by)s, reason = %(reason)s, finished_at = {{now}},
       revision = revision + 1, state = {BatchState.CANCELLED}
 WHERE id = %(batch)s AND state NOT IN ({BatchState.FINISHED}, {BatchState.CANCELLED})
"""

UNSETTLED = f"""
SELECT b.id FROM {{batch}} b
 WHERE (b.state = {BatchState.SUBMITTING} AND b.attention_at IS NULL AND {HAS_ATTENTION})
    OR (b.state = {BatchState.RUNNING} AND ({HAS_ATTENTION} OR {HAS_NO_OPEN}))
    OR (b.state = {BatchState.NEEDS_ATTENTION} AND {HAS_NO_ATTENTION})
    OR (b.state = {BatchState.CANCELLED} AND b.due_at IS NULL AND {HAS_NO_OPEN})
 ORDER BY b.created_at, b.id LIMIT %(bite)s
"""
CANCELLED = f"""
SELECT b.id FROM {{batch}} b WHERE b.state = {BatchState.CANCELLED} AND b.due_at IS NULL AND {HAS_OPEN}
 LIMIT %(bite)s
"""

PAST_THEIR_TIME = "SELECT id FROM {batch} WHERE due_at <= {now} ORDER BY due_at LIMIT %(bite)s"
#: Nobody redrives it, or submits it anew under the same id, while its rows are deleted.
LOCK_PAST = "SELECT id FROM {batch} WHERE id = %(batch)s AND due_at <= {now} {skip_locked}"
PARTS = ("{record}", "{chunk}")
IDS_OF_PART = "SELECT id FROM PART WHERE batch_id = %(batch)s LIMIT %(bite)s"
PRUNE_PART = f"DELETE FROM PART WHERE id IN ({IDS_OF_PART})"
PRUNE_BATCH = "DELETE FROM {batch} WHERE id = %(batch)s"


class _Standing(NamedTuple):
    """A batch and whether chunks hold it, as one statement has seen them."""

    state: int
    revision: int
    is_sealed: object
    was_told: object
    was_called: object
    has_time: object
    has_open: object
    has_attention: object

    @property
    def target(self) -> BatchState:
        """Where the batch is to be."""
        if self.state in {BatchState.CANCELLED, BatchState.FINISHED}:
            return BatchState(self.state)
        if not self.is_sealed:
            return BatchState.SUBMITTING
        if self.has_attention:
            return BatchState.NEEDS_ATTENTION
        return BatchState.RUNNING if self.has_open else BatchState.FINISHED

    @property
    def is_to_tell(self) -> bool:
        """Whether the first chunk has failed of a batch that somebody waits for."""
        ended = {BatchState.CANCELLED, BatchState.FINISHED}
        return bool(self.has_attention) and not self.was_told and self.target not in ended

    @property
    def is_to_go(self) -> bool:
        """Whether a cancelled batch has no open chunk any more, and gets its time."""
        return self.state == BatchState.CANCELLED and not self.has_time and not self.has_open

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to write."""
        return self.target == self.state and not self.is_to_tell and not self.is_to_go


class BatchEnds(Many):
    """Adds how batches end, run again, and are pruned."""

    def needs_settling(self, batch: UUID) -> bool:
        return self._is_to_settle(self._row(LOOK, self._batch(batch)))

    def _is_to_settle(self, row: Row | None) -> bool:
        return row is not None and not _Standing(*row).is_settled

    def settle_batch(self, batch: UUID, *, kept: int) -> Settled:
        self._write_first()
        for _ in range(LOOKS):
            standing = self._standing(batch)
            if standing is None:
                return Settled(None)
            if standing.is_settled:
                return Settled(BatchState(standing.state))
            if self._write_end(batch, standing, kept):
                return Settled(standing.target, self._calls(batch, standing))
        return Settled(None)  # the sweeper looks again

    def _standing(self, batch: UUID) -> _Standing | None:
        row = self._row(LOOK, self._batch(batch))
        return None if row is None else _Standing(*row)

    def _write_end(self, batch: UUID, seen: _Standing, kept: int) -> bool:
        named = self._batch(batch) | {"seen": seen.state, "revision": seen.revision}
        if seen.is_to_go:
            return self._count(PAST, named | {"kept": kept}) == 1
        if seen.target is BatchState.FINISHED:
            return self._count(FINISH, named | {"kept": kept}) == 1
        return self._count(NOTE, named | {"state": int(seen.target), "told": int(seen.is_to_tell)}) == 1

    def _calls(self, batch: UUID, seen: _Standing) -> tuple[str, ...]:
        """The calls that the settlement brings with it, each once for ever."""
        is_to_call = seen.target is BatchState.FINISHED and not seen.was_called
        if not is_to_call and not seen.is_to_tell:
            return ()
        callback, on_attention = self._row(CALLS, self._batch(batch)) or (None, None)
        wanted = ((callback, is_to_call), (on_attention, seen.is_to_tell))
        return tuple(text for text, is_wanted in wanted if is_wanted and text is not None)

    def seal_batch(self, batch: UUID, *, records: int, chunks: int) -> bool:
        return self._count(SEAL, self._batch(batch) | {"records": records, "chunks": chunks}) == 1

    def reopen_batch(self, batch: UUID, *, revision: int) -> bool:
        return self._count(REOPEN, self._batch(batch) | {"revision": revision}) == 1

    def _reopen(self, batches: Collection[UUID]) -> None:
        names, listed = self._digests(sorted(batches))
        self._count(self.dialect.sql(REOPEN_MANY).replace("DIGESTS", names), listed)

    def cancel_batch(self, batch: UUID, *, by: str, reason: str) -> bool:
        return self._count(CANCEL, self._batch(batch) | {"by": by, "reason": reason}) == 1

    def unsettled_batches(self, *, bite: int) -> list[UUID]:
        return [UUID(str(batch)) for (batch,) in self._rows(UNSETTLED, {"bite": bite})]

    def cancelled_batches(self, *, bite: int) -> list[UUID]:
        return [UUID(str(batch)) for (batch,) in self._rows(CANCELLED, {"bite": bite})]

    def prune_batches(self, *, bite: int) -> int:
        pruned = 0
        for (batch,) in self._rows(PAST_THEIR_TIME, {"bite": bite}):
            pruned += self.prune_batch(UUID(str(batch)), bite=bite - pruned)
            if pruned >= bite:
                break
        return pruned

    def prune_batch(self, batch: UUID, *, bite: int) -> int:
        named, pruned = self._batch(batch), 0
        with self.together():
            self._write_first()
            if self._row(LOCK_PAST, named) is None:
                return 0
            for part in PARTS:
                pruned += self._prune_part(part, named | {"bite": bite - pruned})
            return pruned if pruned >= bite else pruned + self._count(PRUNE_BATCH, named)

    def _prune_part(self, part: str, parameters: Parameters) -> int:
        return self._count(PRUNE_PART.replace("PART", part), parameters)

    def _batch(self, batch: UUID) -> Parameters:
        return {"batch": self.dialect.uuid(batch)}
