"""Chunks of a batch that end in the same instant on MariaDB or MySQL."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connections

from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.models import BatchChunk
from tests.races.batches import ROUNDS, BatchStage, end_and_follow, end_and_meet, follow_and_meet
from tests.races.mysql import ALIAS, mark

pytestmark = mark


class TestChunksThatEndAtOnce(BatchStage):
    locks_missing_rows = False

    def store(self) -> LedgerStore:
        return get_store(ALIAS)

    @pytest.mark.parametrize("work", [end_and_follow, end_and_meet, follow_and_meet])
    def test_exactly_one_of_twenty_reserves_the_callback(self, work: Callable[..., list[Call]]) -> None:
        for _ in range(ROUNDS):
            self.all_end(work)


class TestPagesOfChunks(BatchStage):
    def store(self) -> LedgerStore:
        return get_store(ALIAS)

    def test_a_page_reads_no_chunk_before_its_place(self) -> None:
        batch = self.batch()
        self.store().add_chunks(batch, [self.chunk(place) for place in range(3000)])
        with connections[ALIAS].cursor() as cursor:
            cursor.execute(f"ANALYZE TABLE {BatchChunk._meta.db_table}")
        assert self.looked_at(lambda: self.store().open_chunks(batch, after=2000, bite=500)) < 1500
        assert self.looked_at(lambda: self.store().lagging_chunks(after=(1, batch, 2000), bite=500)) < 1500

    def looked_at(self, work: Callable[[], object]) -> int:
        """How many entries of indexes the server has looked at for it."""
        with connections[ALIAS].cursor() as cursor:
            cursor.execute("FLUSH STATUS")
            work()
            cursor.execute("SHOW STATUS WHERE Variable_name IN ('Handler_icp_attempts', 'Handler_read_next')")
            return sum(int(number) for _, number in cursor.fetchall())
