"""A body that writes in bulk gives outcomes to many records in the transaction of its writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections, transaction

from django_idempotent_tasks import Category, LeaseLost, PermanentError, TransientError
from django_idempotent_tasks.models import IdempotencyKey
from tests.sample.models import Effect
from tests.support.batches import APPS, Desk, done, failures, outcomes, texts, write
from tests.support.deliveries import ALIASES
from tests.support.post import rolled_back

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
    pytest.mark.usefixtures("alias"),
]


def in_bulk(alias: str, note: Callable[[Any, list[Any]], None]) -> Callable[..., None]:
    """A body that writes all records that are left, and then says what became of them, in one transaction."""

    def body(task: Any, records: list[Any]) -> None:
        left = list(task.idempotency.records(records))
        with transaction.atomic(using=alias):
            effects = [Effect(key=each.value, attempt=task.idempotency.attempt, token=0) for each in left]
            Effect.objects.using(alias).bulk_create(effects)
            note(task, left)

    return body


def assert_it_does_all(body: Callable[[Any, list[Any]], None], desk: Desk) -> None:
    """Each of three records is done once by this body, and their batch finishes."""
    batch = desk.submit(desk.chunked(body), texts(3))
    desk.run()
    assert (done(), outcomes(), batch.refresh().state) == (texts(3), ["ooo"], "finished")


def test_many_records_are_done_in_one_transaction(desk: Desk, alias: str) -> None:
    def note(task: Any, left: list[Any]) -> None:
        task.idempotency.record([each.index for each in left], "ok")

    batch = desk.submit(desk.chunked(in_bulk(alias, note)), texts(7))
    desk.run()
    assert (done(), outcomes(), batch.refresh().state) == (texts(7), ["ooooo", "oo"], "finished")


def test_each_outcome_and_its_error_is_kept(desk: Desk, alias: str) -> None:
    def note(task: Any, left: list[Any]) -> None:
        record = task.idempotency.record
        record(left[0].index, "ok")
        record(left[1].index, "fatal", "no such course")
        record(left[2].index, Category.MANUAL_REVIEW, ValueError("who knows"))
        record([left[3].index, left[4].index], "fatal", PermanentError("no"))

    desk.submit(desk.chunked(in_bulk(alias, note)), texts(10))
    desk.run()
    assert outcomes() == ["ofmff"] * 2
    assert failures()[:2] == [
        (1, Category.FATAL, "PermanentError", "no such course"),
        (2, Category.MANUAL_REVIEW, "ValueError", "who knows"),
    ]
    assert [index for index, *_ in failures()] == [1, 2, 3, 4, 6, 7, 8, 9]


def test_records_are_left_open_by_a_transaction_that_is_rolled_back(desk: Desk, alias: str) -> None:
    """The attempt knows that too: it goes on with what the ledger has."""

    def body(task: Any, records: list[Any]) -> None:
        now = task.idempotency
        left = list(now.records(records))
        with rolled_back(alias):
            write("undone")
            now.record([each.index for each in left], "ok")
        for each in left:
            with each:
                write(each.value)

    assert_it_does_all(body, desk)


@pytest.mark.parametrize("is_first", [False, True])
def test_what_was_seen_in_a_transaction_that_is_rolled_back_is_read_again(
    desk: Desk, alias: str, *, is_first: bool
) -> None:
    def body(task: Any, records: list[Any]) -> None:
        now = task.idempotency
        with rolled_back(alias):
            if not is_first:
                now.record([0, 1, 2], "ok")
            assert now.batch.size == 3
        for each in now.records(records):
            with each:
                write(each.value)

    assert_it_does_all(body, desk)


def test_outcomes_that_are_rolled_back_without_autocommit_are_given_again(desk: Desk, alias: str) -> None:
    if connections[alias].vendor == "sqlite":
        pytest.skip("without a BEGIN the release of a savepoint commits there")

    def body(task: Any, records: list[Any]) -> None:
        now = task.idempotency
        left = list(now.records(records))
        transaction.set_autocommit(False, using=alias)
        now.record([0, 1], "ok")
        transaction.rollback(using=alias)
        transaction.set_autocommit(True, using=alias)
        for each in left:
            with each:
                write(each.value)

    assert_it_does_all(body, desk)


def test_retryable_ones_are_left_for_the_next_attempt(desk: Desk, alias: str) -> None:
    def note(task: Any, left: list[Any]) -> None:
        again = [each.index for each in left if each.value == "r1" and task.idempotency.attempt == 1]
        task.idempotency.record(again, "retryable", TransientError("later"))
        task.idempotency.record([each.index for each in left if each.index not in again], "ok")

    desk.submit(desk.chunked(in_bulk(alias, note)), texts(3))
    ends = desk.run()
    assert (ends[0].is_retried, outcomes(), failures()) == (True, ["ooo"], [])
    assert done() == ["r0", "r1", "r2", "r1"]


def test_an_attempt_that_was_overtaken_gives_no_outcome_and_writes_nothing(desk: Desk, alias: str) -> None:
    lost: list[LeaseLost] = []

    def note(task: Any, left: list[Any]) -> None:
        IdempotencyKey.objects.using(alias).filter(task=task.name).update(token=9, owner="w:2:another")
        try:
            task.idempotency.record([each.index for each in left], "ok")
        except LeaseLost as error:
            lost.append(error)
            raise

    desk.submit(desk.chunked(in_bulk(alias, note)), texts(3))
    (message,) = desk.arrived()
    desk.deliver(message)
    assert len(lost) == 1
    assert (done(), outcomes()) == ([], ["..."])


@pytest.mark.parametrize(
    ("index", "outcome", "words"),
    [(7, "ok", "0 to 2"), (0, "great", "'manual_review'"), (-1, "ok", "0 to 2"), (0, None, "'fatal'")],
)
def test_an_index_or_an_outcome_that_is_none_is_refused(
    desk: Desk, index: int, outcome: Any, words: str
) -> None:
    def body(task: Any, records: list[Any]) -> None:  # noqa: ARG001
        task.idempotency.record(index, outcome)

    desk.submit(desk.chunked(body), texts(3))
    (message,) = desk.arrived()
    error = desk.deliver(message).error
    assert isinstance(error, ValueError)
    assert words in str(error)
    assert outcomes() == ["..."]


def test_records_without_an_outcome_at_the_end_fail_the_chunk(desk: Desk) -> None:
    def body(task: Any, records: list[Any]) -> None:  # noqa: ARG001
        task.idempotency.record(0, "ok")

    desk.submit(desk.chunked(body), texts(3))
    (message,) = desk.arrived()
    assert "2 of 3 records have no outcome" in str(desk.deliver(message).error)
    assert outcomes() == ["o.."]
