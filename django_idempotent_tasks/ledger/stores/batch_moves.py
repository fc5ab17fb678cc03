"""Redrives of records in SQL: an ended chunk gives records to a later one."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from ...models import ChunkState
from .batch_ends import BatchEnds
from .reading import Parameters

GIVE = f"""
UPDATE {{chunk}} SET outcomes = %(outcomes)s
 WHERE batch_id = %(batch)s AND place = %(place)s AND state = {ChunkState.ENDED} AND outcomes = %(seen)s
"""
FORGET = "DELETE FROM {record} WHERE batch_id = %(batch)s AND record_index IN (INDEXES)"


class BatchMoves(BatchEnds):
    """Adds how records move to a later chunk."""

    def move_records(
        self, batch: UUID, place: int, *, seen: str, outcomes: str, indexes: Collection[int]
    ) -> bool:
        named = self._batch(batch) | {"place": place, "seen": seen, "outcomes": outcomes}
        if self._count(GIVE, named) != 1:
            return False
        listed: Parameters = {f"i{number}": index for number, index in enumerate(indexes)}
        names = ", ".join(f"%({name})s" for name in listed)
        self._count(FORGET.replace("INDEXES", names), listed | self._batch(batch))
        return True
