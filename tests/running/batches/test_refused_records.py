"""What is refused of records: the wrong place, the wrong records, an end while records are to be done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from celery.exceptions import Ignore
from django.db import transaction

from django_idempotent_tasks import OuterTransaction
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.support.batches import APPS, Desk, done, outcomes, texts
from tests.support.deliveries import ALIASES

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
    pytest.mark.usefixtures("alias"),
]


def state() -> State:
    """The state of the only chunk's key."""
    return State(IdempotencyKey.objects.using(get_store().connection.alias).get().state)


def run_one(desk: Desk, body: Callable[..., Any], **options: Any) -> BaseException | None:
    """Run one chunk of three with this body; its error."""
    desk.submit(desk.chunked(body, **options), texts(3), callback=None, on_attention=None)
    (message,) = desk.arrived()
    return desk.deliver(message).error


def _inside(task: Any, records: list[Any]) -> None:
    for record in task.idempotency.records(records):
        with record:
            task.idempotency.record(record.index, "ok")


def _nested(task: Any, records: list[Any]) -> None:
    first, second, _ = task.idempotency.records(records)
    with first, second:
        pass


def _twice(task: Any, records: list[Any]) -> None:
    list(task.idempotency.records(records))
    task.idempotency.records(records)


def _entered_twice(task: Any, records: list[Any]) -> None:
    first, *_ = task.idempotency.records(records)
    with first:
        pass
    with first:
        pass


def _rejected_after_its_end(task: Any, records: list[Any]) -> None:
    first, *_ = task.idempotency.records(records)
    with first:
        pass
    first.reject("fatal", "too late")


def _others(task: Any, records: list[Any]) -> None:
    task.idempotency.records(records[1:])


def _step(task: Any, records: list[Any]) -> None:
    for record in task.idempotency.records(records):
        with record:
            task.idempotency.step("one", int)


def _in_a_step(task: Any, records: list[Any]) -> None:
    (first, *_) = task.idempotency.records(records)
    task.idempotency.step("one", first.__enter__, external=True)


def _completing(task: Any, records: list[Any]) -> None:
    (first, *_) = task.idempotency.records(records)
    with first:
        pass
    with task.idempotency.complete():
        pass


def _completing_inside(task: Any, records: list[Any]) -> None:
    for record in task.idempotency.records(records):
        with record, task.idempotency.complete():
            pass


def _leaving(task: Any, records: list[Any]) -> None:
    for record in task.idempotency.records(records):
        if record.value == "r2":
            break
        with record:
            pass


def _ignoring(task: Any, records: list[Any]) -> None:
    (first, *_) = task.idempotency.records(records)
    with first:
        pass
    raise Ignore


@pytest.mark.parametrize(
    ("body", "words", "kept"),
    [
        (_inside, "inside the block of record 0", "..."),
        (_nested, "inside the block of record 0", "..."),
        (_twice, "twice", "..."),
        (_entered_twice, "has an outcome already", "o.."),
        (_rejected_after_its_end, "has an outcome already", "o.."),
        (_others, "2 records, but its chunk has 3", "..."),
        (_step, "inside the block of record 0", "..."),
        (_in_a_step, "inside the step 'one'", "..."),
        (_completing, "2 of its records are to be done", "o.."),
        (_completing_inside, "inside the block of record 0", "..."),
        (_leaving, "1 of 3 records have no outcome", "oo."),
        (_ignoring, "2 of 3 records have no outcome", "o.."),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_misuse_says_what_it_is_and_keeps_what_was_done(
    desk: Desk, body: Callable[..., Any], words: str, kept: str
) -> None:
    error = run_one(desk, body)
    assert isinstance(error, RuntimeError)
    assert words in str(error)
    assert (state(), outcomes()) == (State.FAILED, [kept])


def test_a_replacement_while_records_are_to_be_done_is_refused(desk: Desk) -> None:
    def body(task: Any, records: list[Any]) -> None:
        task.idempotency.records(records)
        task.replace(desk.callback.si("other"))

    error = run_one(desk, body)
    assert "called replace() while 3" in str(error) or "used replace()" in str(error)
    assert desk.arrived() == []


def test_a_record_in_a_transaction_is_refused(desk: Desk, alias: str) -> None:
    def body(task: Any, records: list[Any]) -> None:
        with transaction.atomic(using=alias):
            for record in task.idempotency.records(records):
                with record:
                    pass

    assert isinstance(run_one(desk, body), OuterTransaction)
    assert outcomes() == ["..."]


def test_a_call_that_is_no_chunk_has_no_batch_and_no_records(desk: Desk) -> None:
    seen: list[Any] = []

    def body(task: Any, records: list[Any]) -> None:
        seen.append(task.idempotency.batch)
        task.idempotency.records(records)

    desk.chunked(body).delay(records=[1])
    (message,) = desk.arrived()
    error = desk.deliver(message).error
    assert "no chunk of a batch" in str(error)
    assert seen == [None]


def test_an_atomic_task_has_no_records(desk: Desk) -> None:
    def body(task: Any, records: list[Any]) -> None:
        task.idempotency.records(records)

    desk.chunked(body, mode="atomic").delay(records=[1])
    (message,) = desk.arrived()
    assert 'mode="leased"' in str(desk.deliver(message).error)


def test_a_body_that_has_done_all_may_complete_with_a_result(desk: Desk) -> None:
    def body(task: Any, records: list[Any]) -> None:
        for record in task.idempotency.records(records):
            with record:
                pass
        with task.idempotency.complete() as end:
            end.result = {"chunk": task.idempotency.batch.offset}

    batch = desk.submit(desk.chunked(body), texts(3))
    ends = desk.run()
    assert ends[0].result == {"chunk": 0}
    assert (batch.refresh().state, desk.finished) == ("finished", [str(batch.id)])


def test_a_body_that_never_asks_for_its_records_has_done_them_all(desk: Desk) -> None:
    def body(_task: Any, records: list[Any]) -> None:
        """As it would be without this package."""

    batch = desk.submit(desk.chunked(body), texts(7))
    desk.run()
    desk.follow()
    desk.run()
    assert (outcomes(), batch.refresh().state, done()) == (["ooooo", "oo"], "finished", [])
    assert desk.finished == [str(batch.id)]


def test_the_body_knows_its_batch_and_its_place_there(desk: Desk) -> None:
    seen: list[Any] = []

    def body(task: Any, records: list[Any]) -> None:
        part = task.idempotency.batch
        indexes = []
        for record in task.idempotency.records(records):
            with record:
                indexes.append(record.index)
        seen.append((part.id, part.offset, part.size, indexes))

    batch = desk.submit(desk.chunked(body), texts(7))
    desk.run()
    assert seen == [(batch.id, 0, 5, [0, 1, 2, 3, 4]), (batch.id, 5, 2, [5, 6])]
