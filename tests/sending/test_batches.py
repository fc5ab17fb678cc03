"""A batch is submitted once, however often and by however many it is sent, and whoever dies over it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery.local import Proxy
from django.db import transaction

from django_idempotent_tasks import (
    IdempotentTask,
    KeyReused,
    get_batch,
)
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import Batch as BatchRow
from django_idempotent_tasks.models import BatchState, DuplicateAttempt, IdempotencyKey
from tests.support.batches import APPS, Desk, counted, done, texts
from tests.support.deliveries import ALIASES
from tests.support.post import rolled_back

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
    pytest.mark.usefixtures("alias", "small_groups"),
]


class Died(Exception):
    """Ends a submission."""


def dying(records: list[Any], after: int) -> Iterator[Any]:
    """Records whose reader dies."""
    for number, record in enumerate(records):
        if number == after:
            raise Died
        yield record


def test_the_same_upload_sent_twice_is_one_batch(desk: Desk, alias: str) -> None:
    task = desk.registering()
    first = desk.submit(task, texts(23), batch_key="upload-17")
    again = desk.submit(task, texts(23), batch_key="upload-17")
    assert (first.created, again.created, first.id) == (True, False, again.id)
    assert counted(alias) == (1, 5)
    assert len(desk.arrived()) == 5
    assert not DuplicateAttempt.objects.using(alias).exists()


def test_a_proxy_of_shared_task_is_as_good_as_its_task(desk: Desk, alias: str) -> None:
    task = desk.registering()
    batch = desk.submit(Proxy(lambda: task), texts(23), batch_key="upload-17")
    assert batch.created
    assert counted(alias) == (1, 5)
    assert len(desk.arrived()) == 5


def test_without_a_key_the_content_says_which_upload_it_is(desk: Desk, alias: str) -> None:
    task, other = desk.registering(), desk.registering(name="desk.other")
    records = [{"name": "Ann", "age": 7}, {"name": "Bo", "age": 8}]
    batches = [
        desk.submit(task, records),
        desk.submit(task, tuple(reversed(records))),
        desk.submit(task, records, kwargs={"term": "2026"}),
        desk.submit(task, records, scope="b"),
        desk.submit(other, records),
    ]
    assert len({batch.id for batch in batches}) == 5
    same = desk.submit(task, [dict(reversed(record.items())) for record in records], chunk_size=1)
    assert (same.created, same.id) == (False, batches[0].id)
    assert counted(alias) == (5, 5)


@pytest.mark.parametrize("number", [0, 1, 5, 11])
def test_a_finished_upload_sent_again_is_told_from_another_one(desk: Desk, number: int) -> None:
    task = desk.registering()
    batch = desk.submit(task, iter(texts(number)), batch_key=1)
    desk.run()
    assert (batch.refresh().state, desk.finished, done()) == ("finished", [str(batch.id)], texts(number))
    again = desk.submit(task, iter(texts(number)), batch_key=1)
    assert (again.created, again.state) == (False, "finished")
    with pytest.raises(KeyReused):
        desk.submit(task, texts(number + 1), batch_key=1)
    assert (desk.run(), desk.finished) == ([], [str(batch.id)])


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([*texts(22), "other"], "records 20 to 22 differ"),
        (["other", *texts(23)[1:]], "records 0 to 4 differ"),
        (texts(22), "records 20 to 21 differ"),
        (texts(20), "it has 23 records, and now there are 20"),
        (texts(26), "records 20 to 24 differ"),
    ],
)
def test_other_records_under_the_key_are_refused_and_named(
    desk: Desk, alias: str, records: list[str], words: str
) -> None:
    task = desk.registering()
    desk.submit(task, texts(23), batch_key="upload-17")
    with pytest.raises(KeyReused, match="upload-17") as error:
        desk.submit(task, records, batch_key="upload-17")
    assert words in str(error.value)
    assert counted(alias) == (1, 5)


def test_a_batch_that_another_sender_has_sealed_takes_no_further_records(desk: Desk, alias: str) -> None:
    task = desk.registering()

    def read() -> Iterator[Any]:
        yield from texts(10)
        desk.submit(task, texts(10), batch_key=1)
        yield from texts(20)[10:]

    with pytest.raises(KeyReused, match="records 10 to 14 were not among"):
        desk.submit(task, read(), batch_key=1)
    assert counted(alias) == (1, 2)
    desk.run()
    assert (done(), len(desk.finished)) == (texts(10), 1)


def test_two_senders_that_cut_one_upload_otherwise_are_told_so(desk: Desk, alias: str) -> None:
    task, others = desk.registering(), iter([texts(10)[:5]])

    def read() -> Iterator[Any]:
        for part in others:  # the other sender begins while this one reads
            desk.submit(task, part, batch_key=1, chunk_size=5)
        yield from texts(10)

    with pytest.raises(KeyReused) as error:
        desk.submit(task, read(), batch_key=1, chunk_size=3)
    assert "in chunks of 5, and here in chunks of 3. Submit it once more" in str(error.value)
    assert "other records" not in str(error.value)
    assert counted(alias) == (1, 1)


def test_other_arguments_under_the_key_are_refused(desk: Desk) -> None:
    task = desk.registering()
    desk.submit(task, texts(3), batch_key=1, kwargs={"more": 1})
    with pytest.raises(KeyReused):
        desk.submit(task, texts(3), batch_key=1, kwargs={"more": 2})


@pytest.mark.parametrize("after", [0, 1, 9, 10, 11, 20, 22])
def test_a_submission_that_died_goes_on_when_it_is_sent_again(desk: Desk, alias: str, after: int) -> None:
    task = desk.registering()
    with pytest.raises(Died):
        desk.submit(task, dying(texts(23), after), batch_key=1)
    assert counted(alias)[1] == after // 10 * 2
    desk.run()
    assert (done(), desk.finished) == (texts(after // 10 * 10), [])
    batch = desk.submit(task, iter(texts(23)), batch_key=1, chunk_size=7 if after >= 10 else 5)
    desk.run()
    assert (done(), batch.refresh().state, desk.finished) == (texts(23), "finished", [str(batch.id)])


def test_a_batch_that_is_not_sealed_does_not_finish(desk: Desk) -> None:
    task = desk.registering()
    with pytest.raises(Died):
        desk.submit(task, dying(texts(23), 20), batch_key=1)
    desk.run()
    desk.follow()
    (row,) = BatchRow.objects.using(get_store().connection.alias).all()
    batch = get_batch(str(row.id))
    assert (batch.state, batch.sealed, batch.progress, desk.finished) == ("submitting", False, 1.0, [])


def test_in_a_transaction_all_is_one(desk: Desk, alias: str) -> None:
    task = desk.registering()
    with rolled_back(alias):
        desk.submit(task, texts(23), batch_key=1)
        assert counted(alias) == (1, 5)
        assert desk.arrived() == []
    assert (counted(alias), IdempotencyKey.objects.using(alias).count()) == ((0, 0), 0)
    with transaction.atomic(using=alias):
        batch = desk.submit(task, texts(23), batch_key=1)
    assert batch.created
    desk.run()
    assert (done(), batch.refresh().state) == (texts(23), "finished")


def test_a_cancelled_batch_gets_no_further_chunks(desk: Desk, alias: str) -> None:
    def read() -> Iterator[Any]:
        for number in range(40):
            if number == 25:
                row = BatchRow.objects.using(alias).get()
                assert get_store().cancel_batch(row.id, by="ann", reason="no")
            yield number

    task = desk.registering()
    batch = desk.submit(task, read(), batch_key=1)
    assert (batch.created, batch.state, batch.sealed, counted(alias)) == (True, "cancelled", False, (1, 4))
    again = desk.submit(task, iter(range(40)), batch_key=1)
    assert (again.created, again.state, counted(alias)) == (False, "cancelled", (1, 4))


def test_chunks_have_the_scope_the_arguments_and_the_options_that_are_given(desk: Desk, alias: str) -> None:
    def body(task: Any, records: list[Any], term: str) -> None:
        """As given."""

    batch = desk.submit(
        desk.chunked(body), texts(7), batch_key=1, scope="tenant", kwargs={"term": "2026"}, priority=7
    )
    messages = desk.arrived()
    assert [message["kwargs"]["term"] for message in messages] == ["2026"] * 2
    assert {message["properties"]["priority"] for message in messages} == {7}
    rows = IdempotencyKey.objects.using(alias).order_by("key_text")
    assert [row.scope for row in rows] == ["tenant"] * 2
    assert [row.key_text for row in rows] == [f"{batch.id.hex}:0", f"{batch.id.hex}:1"]
    assert (batch.scope, batch.key, batch.task) == ("tenant", "1", "desk.register")


def test_the_scope_of_a_tasks_own_rule_is_that_of_the_batch(desk: Desk) -> None:
    def body(task: Any, records: list[Any], tenant: str) -> None:
        """As given."""

    task = desk.chunked(body, scope="tenant")
    batches = [desk.submit(task, [1], batch_key=1, kwargs={"tenant": name}) for name in ("a", "b", "a")]
    assert [batch.scope for batch in batches] == ["a", "b", "a"]
    assert [batch.created for batch in batches] == [True, True, False]


def test_an_immutable_callback_keeps_its_arguments_and_others_follow_the_id(desk: Desk) -> None:
    heard: list[Any] = []

    def note(*args: Any, **kwargs: Any) -> None:
        heard.append((args, kwargs))

    callback = desk.app.task(name="desk.note", base=IdempotentTask, shared=False)(note)
    task = desk.registering()
    first = desk.submit(task, texts(1), callback=callback.si(7), on_attention=None)
    second = desk.submit(task, texts(2), callback=callback.s("more", term=1), on_attention=None)
    desk.run()
    assert heard == [((7,), {}), ((str(second.id), "more"), {"term": 1})]
    assert first.refresh().state == "finished"


def test_a_pruned_batch_may_be_submitted_anew(desk: Desk, alias: str) -> None:
    task = desk.registering()
    batch = desk.submit(task, texts(7), batch_key=1)
    desk.run()
    assert batch.refresh().state == "finished"
    with shifted(400 * 86400):
        again = desk.submit(task, texts(7), batch_key=1)
        assert (again.created, again.id) == (True, batch.id)
        desk.run()
    assert done() == texts(7) * 2
    assert counted(alias) == (1, 2)
    assert BatchRow.objects.using(alias).get().state in {BatchState.FINISHED, BatchState.RUNNING}
