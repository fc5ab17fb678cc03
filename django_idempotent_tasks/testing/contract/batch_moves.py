"""Promises of ``move_records``: an ended chunk gives each of its records away once."""
# ruff: noqa: S101  promises are asserted

from __future__ import annotations

from typing import Any

from ...models import BatchChunk, ChunkState
from .batch_bench import BatchBench, a_record

GIVEN: dict[str, Any] = {"seen": "off", "outcomes": "oxf", "indexes": [1]}


class MovedRecords(BatchBench):
    """A later chunk runs a record again."""

    def test_a_record_is_given_away_once_and_how_it_failed_is_forgotten(self) -> None:
        batch, calls = self.sealed(2)
        self.ended(*calls)
        self._outcomes("off")
        for index in (1, 2):
            self.store().keep_record(batch, a_record(index))
        assert self.store().move_records(batch, 0, **GIVEN)
        assert self.outcomes(batch) == ["oxf", "off"]
        assert [row.index for row in self.records_of(batch)] == [2]
        self.store().keep_record(batch, a_record(1))
        assert not self.store().move_records(batch, 0, **GIVEN)
        assert [row.index for row in self.records_of(batch)] == [1, 2]

    def test_a_chunk_that_has_not_ended_gives_nothing_away(self) -> None:
        batch, _calls = self.sealed()
        self._outcomes("off")
        self.store().keep_record(batch, a_record(1))
        assert not self.store().move_records(batch, 0, **GIVEN)
        assert self.outcomes(batch) == ["off"]
        assert self.chunk_states(batch) == [ChunkState.OPEN]
        assert len(self.records_of(batch)) == 1

    def test_no_other_batch_loses_a_record(self) -> None:
        batches = [self.sealed() for _ in range(2)]
        for batch, calls in batches:
            self.ended(*calls)
            self.store().keep_record(batch, a_record(1))
        self._outcomes("off")
        assert self.store().move_records(batches[0][0], 0, **GIVEN)
        assert self.outcomes(batches[1][0]) == ["off"]
        assert [len(self.records_of(batch)) for batch, _calls in batches] == [0, 1]

    def _outcomes(self, text: str) -> None:
        BatchChunk.objects.using(self.alias).update(outcomes=text)
