"""The records of a chunk: each in a transaction of its own with its outcome, and each once."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_idempotent_tasks.models import BatchChunk
from tests.support.batches import APPS, Desk, done, failures, outcomes, texts, write
from tests.support.deliveries import ALIASES

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
    pytest.mark.usefixtures("alias"),
]


def test_each_record_is_done_once_and_the_callback_is_called_with_the_batch(desk: Desk) -> None:
    batch = desk.submit(desk.registering(), texts(12))
    assert (batch.created, batch.state, batch.progress) == (True, "running", 0.0)
    assert batch.chunks == {"open": 3, "ended": 0, "needs_attention": 0, "discarded": 0, "cancelled": 0}
    desk.run()
    assert done() == texts(12)
    assert outcomes() == ["ooooo", "ooooo", "oo"]
    assert (desk.finished, desk.attention) == ([str(batch.id)], [])
    assert batch.refresh().state == "finished"
    assert batch.counts == {
        "ok": 12, "fatal": 0, "retryable": 0, "manual_review": 0, "expected": 0, "open": 0, "dropped": 0
    }  # fmt: skip
    assert batch.progress == 1.0
    assert failures() == []


def test_a_chunk_is_begun_and_each_of_its_outcomes_is_written_with_one_statement(
    desk: Desk, alias: str
) -> None:
    task = desk.registering()
    desk.submit(task, texts(5))
    (message,) = desk.arrived()
    with CaptureQueriesContext(connections[alias]) as captured:
        desk.deliver(message)
    table = BatchChunk._meta.db_table
    said = [query["sql"] for query in captured.captured_queries]
    assert len([each for each in said if f"{table} SET token" in each]) == 1
    assert len([each for each in said if f"{table} SET outcomes = '" in each]) == 5
    reads = [each for each in said if f"FROM {table} WHERE" in each]
    # MariaDB and MySQL give no rows of an UPDATE.
    assert len(reads) == (1 if connections[alias].vendor == "mysql" else 0)


def test_the_outcome_of_a_record_is_kept_also_after_its_body_has_connected_anew(
    desk: Desk, alias: str
) -> None:
    def body(task: Any, records: list[Any]) -> None:
        for record in task.idempotency.records(records):
            with record:
                write(record.value)
            connections[alias].close()

    batch = desk.submit(desk.chunked(body), texts(3))
    desk.run()
    assert (done(), outcomes(), batch.refresh().state) == (texts(3), ["ooo"], "finished")
