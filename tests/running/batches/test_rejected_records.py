"""A body rejects a record by hand: it has its category, and what it has written is rolled back."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from django_idempotent_tasks import Category, TransientError
from tests.support.batches import APPS, Desk, done, failures, outcomes, texts
from tests.support.deliveries import ALIASES
from tests.support.till import Counter

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
    pytest.mark.usefixtures("alias"),
]
FATAL, RETRYABLE, REVIEW = Category.FATAL, Category.RETRYABLE, Category.MANUAL_REVIEW
EXPECTED = Category.EXPECTED


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("category", ["fatal", "manual_review", Category.FATAL])
def test_a_body_rejects_a_record_by_hand(desk: Desk, alias: str, inside: bool, category: Any) -> None:
    def body(task: Any, records: list[Any]) -> None:
        for record in task.idempotency.records(records):
            if record.value == "r1" and not inside:
                record.reject(category, "no such course")
                continue
            with record:
                Counter(alias).write(record.value)
                if record.value == "r1":
                    record.reject(category, "no such course")
                    raise AssertionError("reject() leaves the block")

    batch = desk.submit(desk.chunked(body), texts(3))
    desk.run()
    assert done() == ["r0", "r2"]
    wanted = FATAL if category != "manual_review" else REVIEW
    name = "PermanentError" if wanted is FATAL else "ManualReview"
    assert failures() == [(1, wanted, name, "no such course")]
    assert batch.refresh().state == "finished"


def test_a_record_that_is_rejected_for_now_is_tried_again(desk: Desk) -> None:
    def body(task: Any, records: list[Any]) -> None:
        for record in task.idempotency.records(records):
            with record:
                if task.idempotency.attempt == 1:
                    record.reject("retryable", TransientError("full"))

    task = desk.chunked(body)
    batch = desk.submit(task, texts(2))
    (message,) = desk.arrived()
    assert desk.deliver(message).is_retried
    assert failures() == [(0, RETRYABLE, "TransientError", "full"), (1, RETRYABLE, "TransientError", "full")]
    assert batch.refresh().state == "running"


def test_a_rejection_that_the_body_catches_rolls_its_record_back_all_the_same(desk: Desk, alias: str) -> None:
    def body(task: Any, records: list[Any]) -> None:
        for record in task.idempotency.records(records):
            with record:
                Counter(alias).write(record.value)
                with suppress(Exception):
                    record.reject("fatal", "no")

    desk.submit(desk.chunked(body), texts(2))
    desk.run()
    assert (done(), outcomes()) == ([], ["ff"])
