"""Records without a worker: plain calls, eager mode, and callers that run what they send (SYNC_FALLBACK)."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from django.db import transaction

from django_idempotent_tasks import ManualReview, PermanentError, RecordsLeft, TransientError
from tests.support.batches import APPS, Desk, done, failures, outcomes, texts, write
from tests.support.deliveries import ALIASES
from tests.support.post import no_broker
from tests.support.uploads import as_the_project_s

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
    pytest.mark.usefixtures("alias"),
]


def test_a_plain_call_runs_each_record_in_a_transaction_and_lets_its_error_out(desk: Desk) -> None:
    def work(_task: Any, record: Any) -> None:
        if record.value == "r2":
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        desk.registering(work)(texts(4))
    assert done() == ["r0", "r1"]
    assert outcomes() == []


def test_a_plain_call_has_no_batch_and_numbers_its_records(desk: Desk) -> None:
    seen: list[Any] = []

    def body(task: Any, records: list[Any]) -> None:
        seen.append(task.idempotency.batch)
        seen.extend((record.index, record.value) for record in task.idempotency.records(iter(records)))
        task.idempotency.record(0, "ok")

    desk.chunked(body)(["a", "b"])
    assert seen == [None, (0, "a"), (1, "b")]


@pytest.mark.parametrize(
    ("category", "kind"),
    [("fatal", PermanentError), ("retryable", TransientError), ("manual_review", ManualReview)],
)
def test_a_rejection_in_a_plain_call_is_an_error(desk: Desk, category: str, kind: type[Exception]) -> None:
    def body(task: Any, records: list[Any], *, inside: bool) -> None:
        for record in task.idempotency.records(records):
            with record if inside else nullcontext():
                write(record.value)
                record.reject(category, "no")

    task = desk.chunked(body)
    for inside in (True, False):
        with pytest.raises(kind, match="no"):
            task(["a"], inside=inside)
    assert done() == ["a"]  # outside its block nothing is rolled back


@pytest.mark.parametrize("is_inside", [False, True])
def test_in_eager_mode_chunks_and_callback_run_at_once(desk: Desk, alias: str, is_inside: bool) -> None:
    desk.app.conf.task_always_eager = True

    def work(task: Any, record: Any) -> None:
        if record.value == "r1":
            raise PermanentError("no")
        if record.value == "r7" and task.idempotency.attempt == 1:
            raise TransientError("later")

    task = desk.registering(work)
    with transaction.atomic(using=alias) if is_inside else nullcontext():
        batch = desk.submit(task, texts(12))
        assert desk.finished == [str(batch.id)]
    assert (batch.state, outcomes()) == ("finished", ["ofooo", "ooooo", "oo"])
    assert [index for index, *_ in failures()] == [1]
    assert sorted(done()) == sorted(set(texts(12)) - {"r1"})
    again = desk.submit(task, texts(12))
    assert (again.created, len(done()), desk.finished) == (False, 11, [str(batch.id)])


def test_in_eager_mode_a_chunk_that_needs_attention_says_so(desk: Desk) -> None:
    desk.app.conf.update(task_always_eager=True, task_eager_propagates=True)

    def work(_task: Any, record: Any) -> None:
        if record.value == "r1":
            raise TransientError("later")

    with pytest.raises(RecordsLeft):
        desk.submit(desk.registering(work, max_retries=0), texts(7))
    assert outcomes() == ["orooo", "oo"]
    assert (len(desk.attention), desk.finished) == (1, [])


@pytest.mark.parametrize("is_inside", [False, True])
def test_with_sync_fallback_the_caller_runs_the_batch_to_its_end(
    desk: Desk, alias: str, settings: Any, is_inside: bool
) -> None:
    settings.IDEMPOTENT_TASKS = {"DATABASE": alias, "SYNC_FALLBACK": True}
    task = desk.registering()
    with no_broker(desk):
        with transaction.atomic(using=alias) if is_inside else nullcontext():
            batch = desk.submit(task, texts(12))
        assert (done(), outcomes()) == (texts(12), ["ooooo", "ooooo", "oo"])
        assert (batch.refresh().state, desk.finished) == ("finished", [str(batch.id)])


@pytest.mark.parametrize("is_eager", [True, False])
def test_what_fails_in_the_callers_process_is_kept_as_it_was_and_may_be_redriven(
    desk: Desk, alias: str, settings: Any, is_eager: bool
) -> None:
    desk.app.conf.task_always_eager = is_eager
    settings.IDEMPOTENT_TASKS = {"DATABASE": alias, "SYNC_FALLBACK": not is_eager}

    def work(_task: Any, record: Any) -> None:
        if not done():
            record.value["n"] = "changed"
            raise PermanentError("no")

    with as_the_project_s(desk.app):
        batch = desk.submit(desk.registering(work), [{"n": 1}, {"n": 2}])
        assert [error.value for error in batch.errors()] == ['{"n": 1}', '{"n": 2}']
        write("from now on")
        assert batch.redrive("fatal").records == 2
    assert (done()[1:], batch.refresh().counts["ok"]) == (["{'n': 1}", "{'n': 2}"], 2)
