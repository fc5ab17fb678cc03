"""What is counted of batches is what their chunks say, by one statement for many."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_idempotent_tasks.models import Batch, BatchChunk, ChunkState, IdempotencyKey
from django_idempotent_tasks.operations.batch_counts import left_unsealed, need_attention, numbers, share
from django_idempotent_tasks.operations.batch_errors import by_signature, failed, in_order
from django_idempotent_tasks.states import Category
from tests.management.graves import LEDGERS
from tests.support.uploads import Batches

pytestmark = pytest.mark.django_db(databases=LEDGERS)
everywhere = pytest.mark.parametrize("uploads", [Batches(alias) for alias in LEDGERS], ids=LEDGERS)


@everywhere
def test_each_record_is_counted_once_by_its_outcome(uploads: Batches) -> None:
    batch, _calls = uploads.of("oof", "orm", "xxo", "o..")
    found = numbers(uploads.alias, [batch.id])[batch.id]
    assert found.outcomes == {"ok": 5, "fatal": 1, "retryable": 1, "manual_review": 1, "expected": 0}
    assert (found.records, found.open, found.dropped, found.failed) == (10, 2, 0, 3)
    assert (found.chunks[ChunkState.ENDED], found.chunks[ChunkState.OPEN]) == (3, 1)
    assert share(found, sealed=True) == 0.8


@everywhere
def test_a_chunk_that_was_discarded_or_cancelled_leaves_records_undone(uploads: Batches) -> None:
    batch, _calls = uploads.of("oo.", "o..", "...")
    states = [ChunkState.DISCARDED, ChunkState.CANCELLED, ChunkState.NEEDS_ATTENTION]
    for place, state in enumerate(states):
        BatchChunk.objects.using(uploads.alias).filter(place=place).update(state=state)
    found = numbers(uploads.alias, [batch.id])[batch.id]
    assert (found.outcomes["ok"], found.dropped, found.open) == (3, 3, 3)
    assert found.facts()["chunks"] == {
        "open": 0, "ended": 0, "needs_attention": 1, "discarded": 1, "cancelled": 1,
    }  # fmt: skip


def test_many_batches_are_counted_by_one_statement_and_an_empty_one_has_zeros() -> None:
    uploads = Batches()
    found = [uploads.of("oof", "..."), uploads.of("ooo"), uploads.of()]
    ids = [batch.id for batch, _calls in found]
    with CaptureQueriesContext(connections["default"]) as captured:
        counted = numbers("default", ids)
    assert len(captured) == 1
    assert [counted[each].records for each in ids] == [6, 3, 0]
    assert (share(counted[ids[2]], sealed=True), share(counted[ids[2]], sealed=False)) == (1.0, 0.0)
    assert numbers("default", []) == {}


@everywhere
def test_errors_are_grouped_by_category_and_signature_the_most_frequent_first(uploads: Batches) -> None:
    batch, _calls = uploads.of("ffm", "fro")
    uploads.of("mmm")
    found = by_signature(uploads.alias, batch.id, 2)
    assert [(each.category, each.count, each.last.index) for each in found] == [
        (Category.FATAL, 3, 3),
        (Category.RETRYABLE, 1, 4),
    ]


@everywhere
def test_failed_records_come_in_their_order_page_by_page(
    uploads: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_idempotent_tasks.operations.batch_errors.PAGE", 2)
    batch, _calls = uploads.of("ffm", "fro")
    rows = failed(uploads.alias, batch.id)
    assert [row.index for row in in_order(rows, values=False)] == [0, 1, 2, 3, 4]
    fatal = failed(uploads.alias, batch.id, category=Category.FATAL)
    assert [row.value for row in in_order(fatal, values=True)] == ['{"n": 0}', '{"n": 1}', '{"n": 3}']


@everywhere
def test_a_batch_is_left_unsealed_when_nothing_was_added_for_an_hour(uploads: Batches) -> None:
    batch = uploads.batch()
    assert left_unsealed(uploads.alias, uploads.now_of_database()).number == 0
    made = uploads.batch_row(batch).created_at - timedelta(hours=2)
    Batch.objects.using(uploads.alias).update(created_at=made)
    assert left_unsealed(uploads.alias, uploads.now_of_database()).number == 1
    call = uploads.reserved(uploads.call("chunk-0"))
    uploads.store().add_chunks(batch, [uploads.chunk(of=call)])
    assert left_unsealed(uploads.alias, uploads.now_of_database()).number == 0
    IdempotencyKey.objects.using(uploads.alias).update(created_at=made)
    assert left_unsealed(uploads.alias, uploads.now_of_database()).number == 1


@everywhere
def test_a_batch_with_a_dead_letter_needs_attention(uploads: Batches) -> None:
    batch, calls = uploads.of("...", "ooo")
    assert need_attention(uploads.alias).number == 0
    uploads.failed_chunk(calls[0])
    uploads.settled(batch.id)
    assert need_attention(uploads.alias).number == 1
