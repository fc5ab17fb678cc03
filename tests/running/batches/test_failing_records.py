"""A record that fails costs nothing of the others: it gets a category, and is tried again alone, or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import connections, transaction

from django_idempotent_tasks import Category, ManualReview, PermanentError, RecordsLeft, TransientError
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.operations import dead_letters
from django_idempotent_tasks.states import Reason, State
from tests.support.batches import APPS, Desk, done, failures, outcomes, texts, write
from tests.support.deliveries import ALIASES
from tests.support.till import Counter
from tests.support.uploads import as_the_project_s

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
    pytest.mark.usefixtures("alias"),
]
FATAL, RETRYABLE, REVIEW = Category.FATAL, Category.RETRYABLE, Category.MANUAL_REVIEW
EXPECTED = Category.EXPECTED


class SoldOut(Exception):
    """Named in ``review_errors``."""


class Declined(Exception):
    """Named in ``expected_errors``."""


class TimedOut(Exception):
    """Named in ``autoretry_for``."""


class Busy(Exception):
    """Says when to come back."""

    retry_after = 77


def raising(errors: Mapping[str, BaseException], *, times: int = 99) -> Any:
    """Work that raises for some records in their first attempts."""
    met = dict.fromkeys(errors, 0)

    def work(_task: Any, record: Any) -> None:
        if record.value in errors and met[record.value] < times:
            met[record.value] += 1
            raise errors[record.value]

    return work


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (PermanentError("no"), FATAL),
        (ManualReview("who knows"), REVIEW),
        (SoldOut("none left"), REVIEW),
        (Declined("no"), EXPECTED),
        (KeyError("thrown"), EXPECTED),
        (ValidationError("bad"), FATAL),
        (TypeError("bad"), FATAL),
        (MemoryError(), RETRYABLE),
        (TransientError("later"), RETRYABLE),
        (TimedOut("later"), RETRYABLE),
        (ValueError("unknown"), RETRYABLE),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_gives_its_record_a_category_and_the_loop_goes_on(
    desk: Desk, error: Exception, category: Category
) -> None:
    task = desk.registering(
        raising({"r1": error}),
        review_errors=(SoldOut,),
        expected_errors=(Declined,),
        throws=(KeyError,),
        autoretry_for=(TimedOut,),
        max_retries=0,
    )
    batch = desk.submit(task, texts(3))
    desk.run()
    assert done() == ["r0", "r2"]
    ((index, found, name, _text),) = failures()
    assert (index, found, name) == (1, category, type(error).__name__)
    assert outcomes() == [f"o{'-frme'[category]}o"]
    assert batch.counts[category.name.lower()] == 1
    assert batch.refresh().state == ("needs_attention" if category is RETRYABLE else "finished")


def test_a_chunk_whose_call_ends_as_expected_holds_up_no_batch(desk: Desk) -> None:
    def body(_task: Any, records: list[Any]) -> None:
        if "r0" in records:
            raise Declined("all of them")

    batch = desk.submit(desk.chunked(body, expected_errors=(Declined,)), texts(5))
    desk.run()
    desk.follow()
    assert (batch.refresh().state, batch.counts["dropped"]) == ("finished", 5)
    assert (desk.finished, desk.attention) == ([], [])


def test_what_a_failed_record_has_written_is_rolled_back(desk: Desk, alias: str) -> None:
    def body(task: Any, records: list[Any]) -> None:
        for record in task.idempotency.records(records):
            with record:
                Counter(alias).write(record.value)
                if record.value == "r1":
                    raise PermanentError("no")

    desk.submit(desk.chunked(body), texts(3))
    desk.run()
    assert done() == ["r0", "r2"]


def test_a_rollback_by_hand_fails_its_record_alone(desk: Desk, alias: str) -> None:
    def work(_task: Any, record: Any) -> None:
        if record.value == "r1":
            Counter(alias).write("lost")
            connections[alias].cursor().execute("ROLLBACK")

    desk.submit(desk.registering(work), texts(3))
    desk.run()
    assert done() == ["r0", "r2"]
    assert outcomes() == ["ofo"]


def test_only_the_retryable_records_are_tried_again_and_a_success_forgets_the_failure(desk: Desk) -> None:
    seen: list[tuple[int, str]] = []

    def work(task: Any, record: Any) -> None:
        seen.append((task.idempotency.attempt, record.value))
        if record.value in {"r1", "r3"} and task.idempotency.attempt < 3:
            raise TransientError(record.value)

    batch = desk.submit(desk.registering(work), texts(5))
    ends = desk.run()
    assert [value for attempt, value in seen if attempt == 1] == texts(5)
    assert [value for attempt, value in seen if attempt == 2] == ["r1", "r3"]
    assert [value for attempt, value in seen if attempt == 3] == ["r1", "r3"]
    assert [end.is_retried for end in ends] == [True, True, False, False]  # the last one is the callback
    assert sorted(done()) == texts(5)
    assert (failures(), outcomes(), batch.refresh().state) == ([], ["ooooo"], "finished")
    assert desk.finished == [str(batch.id)]


def test_the_chunk_waits_as_its_task_says_and_as_an_error_asks(desk: Desk) -> None:
    task = desk.registering(
        raising({"r1": Busy(), "r2": TransientError()}),
        transient_errors=(Busy,),
        retry_backoff=20,
        retry_jitter=False,
    )
    desk.submit(task, texts(3))
    (message,) = desk.arrived()
    (end,) = [desk.deliver(message)]
    assert end.is_retried
    (again,) = desk.arrived()
    assert (again["retries"], again["eta"] is not None) == (1, True)
    row = IdempotencyKey.objects.using(get_store().connection.alias).get(task="desk.register")
    assert row.open_at is not None
    wait = (row.open_at - row.created_at).total_seconds()
    assert 77 <= wait < 90


def test_used_up_retries_end_in_the_dead_letter_and_attention_is_asked_for_once(desk: Desk) -> None:
    errors = {"r1": TransientError("away"), "r6": TransientError("away")}
    batch = desk.submit(desk.registering(raising(errors)), texts(10))
    ends = desk.run()
    assert sum(isinstance(end.error, RecordsLeft) for end in ends) == 2
    letters = IdempotencyKey.objects.using(get_store().connection.alias).filter(state=State.FAILED)
    assert {letter.reason for letter in letters} == {Reason.RETRIES_USED_UP}
    assert outcomes() == ["orooo", "orooo"]
    assert [(index, category) for index, category, *_ in failures()] == [(1, RETRYABLE), (6, RETRYABLE)]
    assert (batch.refresh().state, batch.chunks["needs_attention"]) == ("needs_attention", 2)
    assert (desk.attention, desk.finished) == ([str(batch.id)], [])
    assert batch.counts["ok"] == 8
    assert 0.7 < batch.progress < 0.9


def test_a_redriven_chunk_goes_on_where_it_was_and_the_batch_finishes(desk: Desk) -> None:
    seen: list[str] = []
    broken = True

    def work(_task: Any, record: Any) -> None:
        seen.append(record.value)
        if broken and record.value == "r1":
            raise TransientError("away")

    batch = desk.submit(desk.registering(work, max_retries=0), texts(5))
    desk.run()
    assert (batch.refresh().state, desk.attention) == ("needs_attention", [str(batch.id)])
    broken = False
    seen.clear()
    store = get_store()
    letter = IdempotencyKey.objects.using(store.connection.alias).get(state=State.FAILED)
    with as_the_project_s(desk.app):
        assert dead_letters.redrive(store, letter, by="ann").done
    assert batch.refresh().state == "running"
    desk.sweep(after=0)
    desk.run()
    assert seen == ["r1"]
    assert (batch.refresh().state, outcomes(), failures()) == ("finished", ["ooooo"], [])
    assert (desk.finished, desk.attention) == ([str(batch.id)], [str(batch.id)])


def test_a_discarded_chunk_counts_as_ended(desk: Desk) -> None:
    batch = desk.submit(desk.registering(raising({"r1": TransientError("away")}), max_retries=0), texts(3))
    desk.run()
    store = get_store()
    letter = IdempotencyKey.objects.using(store.connection.alias).get(state=State.FAILED)
    with as_the_project_s(desk.app):
        assert dead_letters.discard(store, letter, by="ann", reason="no").done
    desk.run()
    assert (batch.refresh().state, batch.chunks["discarded"]) == ("finished", 1)
    assert (desk.finished, batch.counts["retryable"]) == ([str(batch.id)], 1)


@pytest.mark.parametrize("is_eager", [False, True])
def test_what_is_kept_of_a_failed_record_is_what_was_submitted(desk: Desk, is_eager: bool) -> None:
    desk.app.conf.task_always_eager = is_eager

    def body(task: Any, records: list[Any]) -> None:
        for record in task.idempotency.records(records):
            with record:
                record.value.pop("name")
                raise PermanentError("no")

    batch = desk.submit(desk.chunked(body), [{"name": "Ann", "age": 7}])
    if not is_eager:
        desk.run()
    assert [each.value for each in batch.errors()] == ['{"name": "Ann", "age": 7}']


def test_the_errors_of_a_batch_are_read_with_their_records(desk: Desk) -> None:
    batch = desk.submit(
        desk.registering(raising({f"r{number}": PermanentError(f"no {number}") for number in (1, 7)})),
        texts(9),
    )
    desk.run()
    found = list(batch.errors())
    assert [(each.index, each.value, each.attempt) for each in found] == [(1, '"r1"', 1), (7, '"r7"', 1)]
    assert len({each.signature for each in found}) == 1
    assert [each.index for each in batch.errors(category=Category.MANUAL_REVIEW)] == []


def test_a_record_whose_writes_django_would_roll_back_is_not_done(desk: Desk, alias: str) -> None:
    def undo(record: Any) -> None:
        if record.value == "r1":
            transaction.set_rollback(True, using=alias)  # as Django does where save() fails and nobody minds

    def body(task: Any, records: list[Any]) -> None:
        for record in task.idempotency.records(records):
            with record:
                write(record.value)
                undo(record)

    desk.submit(desk.chunked(body), texts(3))
    desk.run()
    assert (done(), outcomes()) == (["r0", "r2"], ["oro"])
    assert [error for _, _, error, _ in failures()] == ["TransactionManagementError"]
