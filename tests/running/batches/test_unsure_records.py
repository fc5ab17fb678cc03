"""Records whose commit was not answered: the ledger is asked, and nothing is done twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import OperationalError, connections, transaction

from django_idempotent_tasks import LeaseLost
from django_idempotent_tasks.ledger import batches
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.batches import Batches
from django_idempotent_tasks.models import BatchChunk, IdempotencyKey
from tests.support.batches import APPS, Desk, done, failures, outcomes, texts, write
from tests.support.deliveries import ALIASES

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
    pytest.mark.usefixtures("alias"),
]
Struck = Callable[[], None]


@contextmanager
def commits(alias: str, struck: Callable[[Struck], None], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the next commit be struck; it is given the commit itself."""
    connection, commit = connections[alias], connections[alias].commit
    with monkeypatch.context() as patch:

        def once() -> None:
            patch.undo()
            struck(commit)

        patch.setattr(connection, "commit", once)
        yield


def answer_lost(commit: Struck) -> None:
    commit()
    raise OperationalError("the answer was lost")


def cut(_commit: Struck) -> None:
    raise OperationalError("the connection was cut")


def struck_after(commit: Struck) -> None:
    commit()
    raise SoftTimeLimitExceeded


def walking(
    alias: str, struck: Callable[[Struck], None], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """A body in whose first attempt the commit of the second record is struck."""

    def body(task: Any, records: list[Any]) -> None:
        for record in task.idempotency.records(records):
            if record.index == 1 and task.idempotency.attempt == 1:
                with commits(alias, struck, monkeypatch), record:
                    write(record.value)
            else:
                with record:
                    write(record.value)

    return body


def test_a_record_whose_commit_was_not_answered_is_done(
    desk: Desk, alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = desk.submit(desk.chunked(walking(alias, answer_lost, monkeypatch)), texts(3))
    ends = desk.run()
    assert not ends[0].is_retried
    assert (done(), outcomes(), failures()) == (texts(3), ["ooo"], [])
    assert batch.refresh().state == "finished"


def test_a_record_whose_commit_has_failed_is_tried_again(
    desk: Desk, alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.submit(desk.chunked(walking(alias, cut, monkeypatch)), texts(3))
    ends = desk.run()
    assert ends[0].is_retried
    assert (done(), outcomes(), failures()) == (["r0", "r2", "r1"], ["ooo"], [])


def test_a_time_limit_that_strikes_in_a_commit_ends_the_attempt_and_the_record_is_not_repeated(
    desk: Desk, alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = desk.chunked(walking(alias, struck_after, monkeypatch), autoretry_for=(SoftTimeLimitExceeded,))
    batch = desk.submit(task, texts(3))
    ends = desk.run()
    assert ends[0].is_retried
    assert (done(), outcomes(), batch.refresh().state) == (texts(3), ["ooo"], "finished")


def test_a_body_that_goes_on_after_a_time_limit_keeps_what_the_struck_commit_has_kept(
    desk: Desk, alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def body(task: Any, records: list[Any]) -> None:
        for record in task.idempotency.records(records):
            if record.index == 1:
                with (
                    pytest.raises(SoftTimeLimitExceeded),
                    commits(alias, struck_after, monkeypatch),
                    record,
                ):
                    write(record.value)
            else:
                with record:
                    write(record.value)

    desk.submit(desk.chunked(body), texts(3))
    desk.run()
    assert (done(), outcomes()) == (texts(3), ["ooo"])


def test_a_time_limit_after_the_end_of_a_chunk_leaves_its_batch_to_the_sweeper(
    desk: Desk, alias: str
) -> None:
    def strike(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "replace(outcomes" in sql:
            raise SoftTimeLimitExceeded
        return execute(sql, params, many, context)

    batch = desk.submit(desk.registering(), texts(3))
    with connections[alias].execute_wrapper(strike):
        (end,) = desk.run()
    assert end.error is None
    assert (batch.refresh().state, done()) == ("running", texts(3))
    desk.follow()
    desk.run()
    assert (batch.refresh().state, desk.finished) == ("finished", [str(batch.id)])


def test_what_fails_after_a_records_commit_is_no_failure_of_the_record(desk: Desk, alias: str) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    def body(task: Any, records: list[Any]) -> None:
        for record in task.idempotency.records(records):
            with record:
                write(record.value)
                transaction.on_commit(fail, using=alias)

    batch = desk.submit(desk.chunked(body), texts(3))
    desk.run()
    assert (done(), outcomes(), failures()) == (texts(3), ["ooo"], [])
    assert batch.refresh().state == "finished"


def test_an_outcome_waits_for_a_database_that_is_away(
    desk: Desk, alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # At the beginning of the attempt it answers.
    hold, answers = Batches.hold_chunk, iter([True, False, False])

    def away(store: Any, claim: Any) -> Any:
        if not next(answers, True):
            raise OperationalError("away")
        return hold(store, claim)

    monkeypatch.setattr(Batches, "hold_chunk", away)
    desk.submit(desk.chunked(walking(alias, answer_lost, monkeypatch)), texts(3))
    desk.run()
    assert (done(), outcomes(), failures()) == (texts(3), ["ooo"], [])


@pytest.mark.parametrize("fails", [False, True])
def test_an_attempt_that_was_overtaken_writes_no_outcome(desk: Desk, alias: str, fails: bool) -> None:
    lost: list[LeaseLost] = []
    seen: list[str] = []

    def body(task: Any, records: list[Any]) -> None:
        try:
            for record in task.idempotency.records(records):
                if record.value == "r1":
                    IdempotencyKey.objects.using(alias).update(token=9, owner="w:2:another")
                    BatchChunk.objects.using(alias).update(token=9)
                with record:
                    seen.append(record.value)
                    write(record.value)
                    if fails and record.value == "r1":
                        raise ZeroDivisionError
        except LeaseLost as error:
            lost.append(error)
            raise

    desk.submit(desk.chunked(body), texts(3), callback=None, on_attention=None)
    (message,) = desk.arrived()
    desk.deliver(message)
    assert (seen, done(), outcomes()) == (["r0", "r1"], ["r0"], ["o.."])
    assert (len(lost), failures()) == (1, [])
    assert "the outcome of a record was refused" in str(lost[0])


def test_a_chunk_that_was_discarded_goes_on_when_it_is_redriven_before_its_batch_has_noticed(
    desk: Desk, alias: str
) -> None:
    attempts: list[int] = []

    def body(task: Any, records: list[Any]) -> None:
        attempts.append(task.idempotency.attempt)
        for record in task.idempotency.records(records):
            with record:
                write(record.value)
            if len(attempts) == 1:
                raise ZeroDivisionError

    batch = desk.submit(desk.chunked(body, max_retries=0), texts(3), callback=None, on_attention=None)
    desk.run()
    store, key = get_store(alias), IdempotencyKey.objects.using(alias).get()
    assert store.discard(key.digest, token=key.token, retention=1000)
    batches.follow(store, [key.digest])
    assert batch.refresh().state == "finished"
    assert store.redrive(key.digest, token=key.token + 1, message=key.message or "")
    desk.sweep()
    desk.run()
    assert (done(), outcomes()) == (texts(3), ["ooo"])
    assert batch.refresh().state == "finished"
