"""How many statements batches cost on PostgreSQL, and by which plans: no hot one reads a whole table."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger import batches
from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.models import BatchState
from django_idempotent_tasks.testing.contract.batch_bench import KEPT, BatchBench, a_record
from tests.support.ledger.crowd import fill
from tests.support.ledger.statements import Work, postgresql_plan, said

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]


class Batches(BatchBench):
    def store(self) -> LedgerStore:
        return get_store("default")

    def with_callback(self, chunks: int) -> tuple[UUID, list[Call]]:
        call = Call(Identity(uuid4(), None, "end", None), "shop.done", str(uuid4()), "{}")
        return self.sealed(chunks, callback=batches.prepared(call), on_attention=None)


def words(work: Work) -> list[str]:
    return [statement.split()[0] for statement in said("default", work)]


class TestStatements(Batches):
    def test_the_end_of_a_chunk_costs_its_batch_three_statements(self) -> None:
        _, calls = self.with_callback(2)
        self.completed(self.started(calls[0]))
        digests = [calls[0].identity.digest]
        assert words(lambda store: batches.follow(store, digests)) == ["SELECT", "UPDATE", "SELECT"]
        assert words(lambda store: batches.follow(store, digests)) == ["SELECT"]

    def test_the_last_chunk_finishes_its_batch_and_reserves_the_callback_in_one_transaction(self) -> None:
        batch, calls = self.with_callback(1)
        self.completed(self.started(calls[0]))
        digests = [calls[0].identity.digest]
        found = words(lambda store: batches.follow(store, digests))
        assert found[:3] == ["SELECT", "UPDATE", "SELECT"]
        assert found[3:] == ["BEGIN", "SELECT", "UPDATE", "SELECT", "WITH", "COMMIT"]
        assert self.state_of(batch) is BatchState.FINISHED

    def test_many_chunks_that_end_alike_move_with_one_statement(self) -> None:
        _, calls = self.with_callback(9)
        for call in calls[:8]:
            self.completed(self.started(call))
        digests = [call.identity.digest for call in calls[:8]]
        assert words(lambda store: batches.follow(store, digests)) == ["SELECT", "UPDATE", "SELECT"]

    def test_the_outcome_of_a_record_is_one_statement(self) -> None:
        _, calls = self.with_callback(1)
        claim = self.started(calls[0])
        assert words(lambda store: store.keep_outcomes(claim, outcomes="o..")) == ["UPDATE"]

    def test_a_thousand_chunks_are_added_with_one_statement(self) -> None:
        batch = self.batch()
        chunks = [self.chunk(place) for place in range(1000)]
        assert words(lambda store: store.add_chunks(batch, chunks)) == ["INSERT"]

    def test_a_sweep_without_batches_costs_four_statements(self) -> None:
        def look(store: LedgerStore) -> None:
            page = store.lagging_chunks(after=None, bite=9)
            store.lagging_chunks(after=page.after, bite=9)
            store.cancelled_batches(bite=9)
            store.unsettled_batches(bite=9)

        assert words(look) == ["SELECT"] * 4


class TestPlans(Batches):
    def test_a_page_of_chunks_begins_where_the_last_one_has_ended(self) -> None:
        fill("default")
        batch, _ = self.with_callback(3)
        plan = postgresql_plan(lambda store: store.lagging_chunks(after=(1, batch, 1), bite=9))
        pages = [access.condition for access in plan if access.index == "idem_chunk_state"]
        assert len([condition for condition in pages if "place >" in condition]) == 1
        assert not [condition for condition in pages if "batch_id >=" in condition]

    def test_no_statement_reads_a_table_sequentially(self) -> None:
        fill("default")
        batch, calls = self.with_callback(3)
        claim = self.started(calls[0])
        self.completed(self.started(calls[1]))
        self.store().keep_record(batch, a_record(1))
        work: list[Work] = [
            lambda store: store.chunk_of(claim.digest),
            lambda store: store.keep_outcomes(claim, outcomes="o.."),
            lambda store: store.keep_record(batch, a_record(7)),
            lambda store: store.drop_record(batch, 1),
            lambda store: store.follow_chunks([calls[1].identity.digest]),
            lambda store: store.needs_settling(batch),
            lambda store: store.settle_batch(batch, kept=KEPT),
            lambda store: store.chunks_at(batch, [0, 1, 2]),
            lambda store: store.open_chunks(batch, after=-1, bite=9),
            lambda store: store.lagging_chunks(after=None, bite=9),
            lambda store: store.lock_batch(batch),
            lambda store: store.next_place(batch),
            lambda store: store.cancelled_batches(bite=9),
            lambda store: store.unsettled_batches(bite=9),
            lambda store: store.prune_batches(bite=9),
            lambda store: store.reopen_batch(batch, revision=1),
        ]
        for verb in work:
            nodes = {access.node for access in postgresql_plan(verb)}
            assert nodes <= {"Index Scan", "Index Only Scan", "Bitmap Heap Scan", "Bitmap Index Scan"}, said(
                "default", verb
            )
