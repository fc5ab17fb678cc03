"""``idem sweep --once``: chunks of batches have ended, failed or been cancelled, and nobody has noticed."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from celery import Celery
from django.db import connection

from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger import batches
from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.messages.relay import Relay
from django_idempotent_tasks.models import BatchState, ChunkState, IdempotencyKey
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper import batches as module
from django_idempotent_tasks.sweeper import thread
from django_idempotent_tasks.sweeper.thread import Sweeper
from django_idempotent_tasks.testing.contract.batch_bench import BatchBench
from tests.management.test_command_sweep import MESSAGE, app, arrived, later
from tests.support.keys import Keys, facts
from tests.support.waiting import eventually

__all__ = ["app"]

pytestmark = pytest.mark.django_db(
    transaction=True, databases=["default", "sqlite"], available_apps=["django_idempotent_tasks"]
)


class Batches(Keys, BatchBench):
    """Batches whose callbacks can be sent."""

    def with_calls(self, chunks: int) -> tuple[UUID, list[Call]]:
        callback, on_attention = (_comes_after(name) for name in ("done", "look"))
        return self.sealed(chunks, callback=callback, on_attention=on_attention)

    def sweep(self) -> None:
        code, _ = facts(self, "sweep", "--once")
        assert code == 0


def _comes_after(task_id: str) -> str:
    return batches.prepared(
        Call(Identity(uuid4(), None, "end", None), "shop.done", task_id, MESSAGE % task_id)
    )


both = pytest.mark.parametrize("found", [Batches("default"), Batches("sqlite")], ids=["default", "sqlite"])


@both
def test_a_batch_whose_last_chunk_ended_in_a_process_that_died_is_finished(
    found: Batches, app: Celery
) -> None:
    batch, calls = found.with_calls(2)
    for call in calls:
        found.completed(found.started(call))
    found.sweep()
    assert found.state_of(batch) is BatchState.FINISHED
    assert arrived(app) == ["done"]
    found.sweep()
    assert arrived(app) == []


@both
def test_a_batch_whose_chunks_were_followed_by_a_process_that_died_is_finished(
    found: Batches, app: Celery
) -> None:
    batch, calls = found.with_calls(2)
    found.ended(*calls)
    found.sweep()
    assert found.state_of(batch) is BatchState.FINISHED
    assert arrived(app) == ["done"]


@both
def test_a_callback_that_was_reserved_by_a_process_that_died_is_sent(found: Batches, app: Celery) -> None:
    _, calls = found.with_calls(1)
    found.completed(found.started(calls[0]))
    assert len(batches.follow(found.store(), [calls[0].identity.digest])) == 1
    later(found)
    assert arrived(app) == ["done"]


@both
def test_a_chunk_that_the_sweep_itself_gives_up_is_announced_by_it(found: Batches, app: Celery) -> None:
    batch, calls = found.with_calls(1)
    claim = found.started(calls[0])
    found.in_columns(claim, in_external=True)
    later(found)
    assert found.row(claim).state == State.REVIEW
    assert found.state_of(batch) is BatchState.NEEDS_ATTENTION
    assert arrived(app) == ["look"]


@both
def test_the_rest_of_a_cancelled_batch_is_cancelled(
    found: Batches, app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CANCELS", 2)
    batch, calls = found.with_calls(5)
    running = found.started(calls[1])
    assert found.store().cancel_batch(batch, by="ann", reason="wrong file")
    found.sweep()
    states = [ChunkState.CANCELLED] * 5
    states[1] = ChunkState.OPEN
    assert found.chunk_states(batch) == states
    assert found.batch_row(batch).due_at is None
    found.completed(running)
    found.sweep()
    assert found.batch_row(batch).due_at is not None
    assert arrived(app) == []


REFUSED = """
CREATE FUNCTION refused() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
CREATE TRIGGER refused BEFORE UPDATE ON django_idempotent_tasks_batch FOR EACH ROW
  WHEN (OLD.id = '%s') EXECUTE FUNCTION refused();
"""


@pytest.mark.postgresql
@pytest.mark.parametrize("followed", [False, True])
def test_a_batch_that_the_database_refuses_holds_up_no_other(
    app: Celery, caplog: pytest.LogCaptureFixture, followed: bool
) -> None:
    found = Batches("default")
    refused, calls = found.with_calls(1)
    other, more = found.with_calls(1)
    found.begun_before(refused, other)
    for call in (*calls, *more):
        if followed:
            found.ended(call)
        else:
            found.completed(found.started(call))
    with connection.cursor() as cursor:
        cursor.execute(REFUSED % refused)
    try:
        found.sweep()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION refused() CASCADE")
    assert (found.state_of(refused), found.state_of(other)) == (BatchState.RUNNING, BatchState.FINISHED)
    assert f"The batch {refused} was not settled" in caplog.text
    found.sweep()
    assert found.state_of(refused) is BatchState.FINISHED
    assert arrived(app) == ["done", "done"]


@both
def test_chunks_are_looked_at_a_page_at_a_time(
    found: Batches, app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BITE", 2)
    batch, calls = found.with_calls(5)
    other, _ = found.sealed(3)
    for call in calls:
        found.completed(found.started(call))
    following = module.Following(app)
    with found.store().side_connection() as side:
        looks = [following.go_on(side).goes_on for _ in range(12)]
    assert looks.index(False) > 2
    assert found.state_of(batch) is BatchState.FINISHED
    assert found.state_of(other) is BatchState.RUNNING


def test_a_batch_past_its_time_is_pruned(app: Celery) -> None:  # noqa: ARG001  it sweeps
    found = Batches("default")
    batch, calls = found.with_calls(2)
    found.ended(*calls)
    with found.store().together():
        found.store().settle_batch(batch, kept=10)
    with shifted(9000):
        found.sweep()
    assert found.chunk_rows(batch) == []
    assert not IdempotencyKey.objects.filter(task_id="done").exists()


@pytest.mark.postgresql
def test_the_sweepers_thread_finishes_a_batch_as_well(app: Celery) -> None:
    found = Batches("default")
    batch, calls = found.with_calls(2)
    for call in calls:
        found.completed(found.started(call))
    sweeper = Sweeper(app)
    sweeper.start()
    try:
        eventually(lambda: found.state_of(batch) is BatchState.FINISHED, "the batch is finished")
        eventually(lambda: arrived(app) == ["done"], "the callback is sent")
    finally:
        sweeper.stop()


@pytest.mark.postgresql
def test_the_thread_goes_on_where_its_time_was_over_and_ends_batches_each_time(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BITE", 2)
    monkeypatch.setattr(thread, "FOLLOW_TIME", 0.0)
    found = Batches("default")
    batch, calls = found.with_calls(5)
    ended, chunks = found.sealed(1, callback=None)
    found.ended(*chunks)
    for call in calls:
        found.completed(found.started(call))
    sweeper = Sweeper(app)
    assert sweeper._sweep() is False
    assert found.chunk_states(batch).count(ChunkState.ENDED) == 2
    assert found.state_of(ended) is BatchState.FINISHED
    for _ in range(3):
        assert sweeper._sweep() is False
    assert found.state_of(batch) is BatchState.FINISHED
    assert arrived(app) == ["done"]


class TestComesAfter(BatchBench):
    """What the ledger reserves with the end of a batch, and sends."""

    @pytest.fixture(autouse=True, params=["default", "sqlite"])
    def _database(self, request: pytest.FixtureRequest) -> None:
        self._alias = request.param

    def store(self) -> LedgerStore:
        return get_store(self._alias)

    @pytest.mark.parametrize("scope", [None, "", "t1"])
    @pytest.mark.parametrize("fingerprint", [None, uuid4()])
    def test_a_prepared_call_is_the_same_call(self, scope: str | None, fingerprint: UUID | None) -> None:
        call = Call(Identity(uuid4(), scope, "end 東", fingerprint), "shop.done", "A", MESSAGE % "A")
        assert batches.call_of(batches.prepared(call)) == call

    def test_it_is_sent_at_once_where_the_broker_answers(self, app: Celery) -> None:
        _, calls = self.sealed(callback=_comes_after("done"))
        self.completed(self.started(calls[0]))
        found = batches.follow(self.store(), [calls[0].identity.digest])
        batches.publish(app, self.store(), found)
        assert arrived(app) == ["done"]
        assert self.row(found[0]).state == State.PENDING

    def test_it_is_due_at_once_where_the_broker_is_away(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(batches, "relay", Relay())
        _, calls = self.sealed(callback=_comes_after("done"))
        self.completed(self.started(calls[0]))
        found = batches.follow(self.store(), [calls[0].identity.digest])
        due_at = self.row(found[0]).due_at
        assert due_at is not None
        assert due_at > self.now(found[0])
        away = Celery("away", set_as_current=False)
        away.conf.update(broker_write_url="redis://127.0.0.1:1/0")
        batches.publish(away, self.store(), found)
        due_at = self.row(found[0]).due_at
        assert due_at is not None
        assert due_at <= self.now(found[0])

    def test_a_callback_that_is_there_already_keeps_no_batch_from_its_end(self) -> None:
        text = _comes_after("done")
        self.reserved(batches.call_of(text))
        batch, calls = self.sealed(callback=text)
        self.completed(self.started(calls[0]))
        assert batches.follow(self.store(), [calls[0].identity.digest]) == []
        assert self.state_of(batch) is BatchState.FINISHED

    def test_a_failed_chunk_is_announced_once_and_its_batch_called_back_once(self) -> None:
        callback, on_attention = _comes_after("done"), _comes_after("look")
        batch, calls = self.sealed(callback=callback, on_attention=on_attention)
        digest = calls[0].identity.digest
        found: list[Call] = []
        for _ in range(2):
            self.failed(self.started(calls[0]))
            found += batches.follow(self.store(), [digest])
            token = self.seen(calls[0]).token
            assert self.store().redrive(digest, token=token, message=MESSAGE % "chunk-0")
            found += batches.follow(self.store(), [digest])
        self.completed(self.started(calls[0]))
        found += batches.follow(self.store(), [digest])
        assert [call.task_id for call in found] == ["look", "done"]
        assert self.state_of(batch) is BatchState.FINISHED
