"""Moves the chunks of batches to the states of the keys of their calls, in SQL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from ...models import DEAD, ChunkState
from ...states import Category, State
from ..batch_values import NO_OUTCOME, OK, Lagging
from ..values import Claim
from .batch_moves import BatchMoves
from .many_sql import ROWS, bites
from .reading import Parameters, Row

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


class ChunkStates(BatchMoves):
    """Adds how chunks follow their keys."""

    page = PAGE

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

    def _move_chunks(self, change: Change, digests: list[UUID]) -> int:
        template, listed = self._moving(change, digests)
        return self._count(template, listed)

    def _moving(self, change: Change, digests: list[UUID]) -> tuple[str, Parameters]:
        names, listed = self._digests(digests)
        named = {"seen": int(change.seen), "to": int(change.to), "token": change.token}
        template = self.dialect.sql(MOVE_GONE if change.token is None else MOVE)
        return template.replace("DIGESTS", names), listed | named

    def end_chunk(self, claim: Claim, batch: UUID) -> bool | None:
        return self.needs_settling(batch) if self._move_chunks(end_of(claim), [claim.digest]) else None

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


def end_of(claim: Claim) -> Change:
    """The end of an open chunk whose key this claim has completed."""
    return Change(ChunkState.OPEN, ChunkState.ENDED, claim.token)


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
