"""Decisions about a batch and about the keys of its chunks: each once, and followed by the batch at once."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.models import Batch, BatchChunk, BatchState, ChunkState
from django_idempotent_tasks.operations import dead_letters
from django_idempotent_tasks.operations.batch_decisions import cancel
from django_idempotent_tasks.operations.batch_redrives import Redriven, redrive
from django_idempotent_tasks.operations.cancel import cancel as cancel_call
from django_idempotent_tasks.states import Category, State
from tests.management.graves import LEDGERS
from tests.support.deliveries import APPS
from tests.support.post import Post, rolled_back
from tests.support.uploads import Batches, register

pytestmark = pytest.mark.django_db(transaction=True, databases=LEDGERS, available_apps=APPS)
everywhere = pytest.mark.parametrize("uploads", [Batches(alias) for alias in LEDGERS], ids=LEDGERS)
__all__ = ["register"]
WHO: dict[str, Any] = {"by": "ann", "reason": "the gateway is up again"}


@pytest.fixture
def uploads() -> Batches:
    return Batches()


def states(uploads: Batches, calls: list[Call]) -> list[str]:
    return [State(uploads.row(call).state).name for call in calls]


# -- cancel --


@everywhere
def test_cancelled_chunks_that_wait_do_not_begin_and_what_runs_goes_on(
    uploads: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    batch, calls = uploads.of("...", "...", "ooo", "...")
    claim = uploads.started(calls[1])
    with caplog.at_level(logging.WARNING, "django_idempotent_tasks"):
        assert cancel(uploads.store(), batch, **WHO).done
    assert states(uploads, calls) == ["CANCELLED", "RUNNING", "SUCCEEDED", "CANCELLED"]
    row = uploads.batch_row(batch.id)
    assert (row.state, row.cancelled_by, row.reason) == (BatchState.CANCELLED, *WHO.values())
    assert any(WHO["reason"] in line and str(batch.id) in line for line in caplog.messages)
    assert uploads.complete(claim)
    uploads.follow(*calls)
    cancelled = ChunkState.CANCELLED
    assert uploads.chunk_states(batch.id) == [cancelled, ChunkState.ENDED, ChunkState.ENDED, cancelled]


def test_who_cancels_second_is_told_what_the_batch_is(uploads: Batches) -> None:
    batch, _calls = uploads.of("...")
    assert cancel(uploads.store(), batch, **WHO).done
    second = cancel(uploads.store(), batch, by="bob", reason="me too")
    assert (second.done, "cancelled now" in second.problem) == (False, True)
    assert uploads.batch_row(batch.id).cancelled_by == "ann"
    Batch.objects.all().delete()
    assert "gone" in cancel(uploads.store(), batch, **WHO).problem


def test_a_cancel_that_is_rolled_back_cancels_nothing(uploads: Batches) -> None:
    batch, calls = uploads.of("...")
    with rolled_back():
        assert cancel(uploads.store(), batch, **WHO).done
    assert states(uploads, calls) == ["PENDING"]
    assert uploads.state_of(batch.id) is BatchState.RUNNING


# -- redrive --


@everywhere
def test_dead_chunks_go_on_under_their_keys_and_the_batch_runs_again(uploads: Batches) -> None:
    batch, calls = uploads.of("of.", "...", "ooo", "...")
    for call in calls[:2]:
        uploads.failed(uploads.started(call))
    uploads.follow(calls[0])  # of the other the batch does not know yet
    uploads.settled(batch.id)
    assert uploads.state_of(batch.id) is BatchState.NEEDS_ATTENTION
    assert redrive(uploads.store(), batch, **WHO) == Redriven(chunks=2)
    assert states(uploads, calls) == ["PENDING", "PENDING", "SUCCEEDED", "PENDING"]
    assert uploads.state_of(batch.id) is BatchState.RUNNING
    assert uploads.outcomes(batch.id)[0] == "of."
    assert redrive(uploads.store(), batch, **WHO).done is False


def test_a_dead_chunk_without_a_message_is_left_and_counted(uploads: Batches) -> None:
    batch, calls = uploads.of("...", "...")
    for call in calls:
        uploads.failed(uploads.started(call))
    uploads.in_columns(calls[0], message=None)
    done = redrive(uploads.store(), batch, **WHO)
    assert (done.chunks, done.left) == (1, 1)
    assert "1 cannot run again" in done.words()


def redriven(uploads: Batches, batch: Batch, category: Category = Category.FATAL) -> Redriven:
    return redrive(uploads.store(), batch, category=category, **WHO)


@pytest.mark.usefixtures("register")
def test_records_of_a_category_run_again_in_new_chunks(uploads: Batches, post: Post) -> None:
    batch, calls = uploads.of("off", "fom", "ofo", "f..")
    before = uploads.batch_row(batch.id).revision
    assert redriven(uploads, batch) == Redriven(chunks=2, records=4)
    assert uploads.outcomes(batch.id)[:4] == ["oxx", "xom", "oxo", "f.."]  # what still runs is left alone
    chunks = uploads.chunk_rows(batch.id)[4:]
    assert [(each.place, each.size, json.loads(each.indexes or "")) for each in chunks] == [
        (4, 3, [1, 2, 3]),
        (5, 1, [7]),
    ]
    assert [each.index for each in uploads.records_of(batch.id)] == [5, 9]
    assert uploads.batch_row(batch.id).revision > before
    arrived = post.arrived()
    assert [each["kwargs"]["records"] for each in arrived] == [[{"n": 1}, {"n": 2}, {"n": 3}], [{"n": 7}]]
    assert [each["id"] for each in arrived] == [each.task_id for each in chunks]
    assert {uploads.row(each.digest).state for each in chunks} == {State.PENDING}
    assert states(uploads, calls)[:3] == ["SUCCEEDED"] * 3


@pytest.mark.usefixtures("register")
def test_a_finished_batch_runs_again_and_finishes_anew(uploads: Batches) -> None:
    batch, _calls = uploads.of("oom")
    assert batch.state == BatchState.FINISHED
    assert redriven(uploads, batch, Category.MANUAL_REVIEW).records == 1
    row = uploads.batch_row(batch.id)
    assert (row.state, row.finished_at, row.due_at) == (BatchState.RUNNING, None, None)
    chunk = uploads.chunk_rows(batch.id)[1]
    uploads.in_columns(chunk.digest, state=State.SUCCEEDED)  # type: ignore[arg-type]
    uploads.store().follow_chunks([chunk.digest])
    uploads.settled(batch.id)
    assert uploads.state_of(batch.id) is BatchState.FINISHED
    assert uploads.outcomes(batch.id) == ["oox", "o"]


@pytest.mark.usefixtures("register")
def test_what_failed_again_is_redriven_from_its_new_chunk(uploads: Batches) -> None:
    batch, _calls = uploads.of("ofo", "fff")
    redriven(uploads, batch)
    BatchChunk.objects.filter(place__gte=2).update(state=ChunkState.ENDED, outcomes="off")
    BatchChunk.objects.filter(place=3).update(outcomes="f")
    for index in (3, 4, 5):
        uploads.failing(batch.id, index, Category.FATAL)
    assert redriven(uploads, uploads.batch_row(batch.id)).records == 3
    assert uploads.outcomes(batch.id) == ["oxo", "xxx", "oxx", "x", "..."]
    assert json.loads(uploads.chunk_rows(batch.id)[4].indexes or "") == [3, 4, 5]


@pytest.mark.usefixtures("register")
def test_a_record_that_is_not_kept_is_left_where_it_is(uploads: Batches) -> None:
    batch, _calls = uploads.of("off")
    uploads.failing(batch.id, 1, Category.FATAL, value=None)
    assert redriven(uploads, batch) == Redriven(chunks=1, records=1, left=1)
    assert uploads.outcomes(batch.id) == ["ofx", "."]


@pytest.mark.usefixtures("register")
def test_records_too_large_for_one_chunk_go_into_several(uploads: Batches, settings: Any) -> None:
    batch, _calls = uploads.of("fff")
    for index in range(3):
        uploads.failing(batch.id, index, Category.FATAL, value=json.dumps("x" * 400))
    settings.IDEMPOTENT_TASKS = {"MAX_PAYLOAD": 1000}
    assert redriven(uploads, batch) == Redriven(chunks=3, records=3)


@pytest.mark.usefixtures("register")
def test_a_task_that_takes_other_arguments_by_now_is_said(uploads: Batches) -> None:
    batch, _calls = uploads.of("off")
    template = '{"v": 1, "args": [], "kwargs": {"gone": 1}, "options": {}}'
    Batch.objects.update(template=template)
    done = redriven(uploads, uploads.batch_row(batch.id))
    assert (done.done, "gone" in done.words()) == (False, True)
    assert uploads.outcomes(batch.id) == ["off"]


@pytest.mark.usefixtures("register")
def test_of_two_who_redrive_the_same_records_one_does(
    uploads: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, _calls = uploads.of("off")
    store, give = uploads.store(), type(uploads.store()).lock_batch
    others: list[Redriven] = []

    def lock(self: Any, *args: Any) -> Any:
        if not others:
            others.append(Redriven())
            with uploads.second_store() as second:
                seen = uploads.outcomes(batch.id)[0]
                assert second.move_records(batch.id, 0, seen=seen, outcomes="oxf", indexes=[1])
        return give(self, *args)

    monkeypatch.setattr(type(store), "lock_batch", lock)
    done = redriven(uploads, batch)
    assert (done.done, "moved on" in done.problem) == (False, True)
    assert uploads.outcomes(batch.id) == ["oxf"]


@pytest.mark.parametrize(
    ("columns", "category", "words"),
    [
        ({"state": BatchState.CANCELLED}, None, "was cancelled"),
        ({"state": BatchState.CANCELLED}, Category.FATAL, "was cancelled"),
        ({"state": BatchState.SUBMITTING}, Category.FATAL, "still being submitted"),
        ({"task": "shop.gone"}, Category.FATAL, "No task of this name"),
    ],
)
def test_what_cannot_be_redriven_is_refused_with_the_reason(
    uploads: Batches, columns: dict[str, Any], category: Category | None, words: str
) -> None:
    batch, _calls = uploads.of("off", **columns)
    done = redrive(uploads.store(), batch, category=category, **WHO)
    assert (done.done, words in done.words()) == (False, True)
    assert uploads.outcomes(batch.id) == ["off"]


# -- decisions about the keys of chunks --

Decide = Callable[[Batches, Any], object]
DECISIONS: dict[str, tuple[Decide, ChunkState, BatchState]] = {
    "redrive": (
        lambda uploads, row: dead_letters.redrive(uploads.store(), row, by="ann"),
        ChunkState.OPEN,
        BatchState.RUNNING,
    ),
    "discard": (
        lambda uploads, row: dead_letters.discard(uploads.store(), row, by="ann"),
        ChunkState.DISCARDED,
        BatchState.FINISHED,
    ),
    "resolve": (
        lambda uploads, row: dead_letters.resolve(uploads.store(), row, None, by="ann"),
        ChunkState.ENDED,
        BatchState.FINISHED,
    ),
}


@everywhere
@pytest.mark.parametrize("name", DECISIONS)
def test_a_batch_follows_a_decision_about_a_dead_letter_of_it_at_once(uploads: Batches, name: str) -> None:
    decide, chunk, goal = DECISIONS[name]
    batch, calls = uploads.of("...", "ooo")
    uploads.failed_chunk(calls[0])
    uploads.settled(batch.id)
    decide(uploads, uploads.row(calls[0]))
    assert uploads.chunk_states(batch.id) == [chunk, ChunkState.ENDED]
    assert uploads.state_of(batch.id) is goal


def test_a_batch_that_has_finished_without_a_chunk_waits_for_it_again_when_it_is_redriven(
    uploads: Batches,
) -> None:
    batch, calls = uploads.of("...", "ooo")
    uploads.failed_chunk(calls[0])
    dead_letters.discard(uploads.store(), uploads.row(calls[0]), by="ann")
    assert uploads.state_of(batch.id) is BatchState.FINISHED
    dead_letters.redrive(uploads.store(), uploads.row(calls[0]), by="ann")
    assert uploads.state_of(batch.id) is BatchState.RUNNING
    assert uploads.batch_row(batch.id).due_at is None


def test_a_batch_follows_the_end_of_a_call_that_is_cancelled(uploads: Batches, register: Any) -> None:
    batch, calls = uploads.of("...")
    uploads.in_columns(calls[0], task=register.name)
    outcome = cancel_call(
        register, task_id=calls[0].task_id, idempotency_key=None, scope=None, terminate=False
    )
    assert outcome == "cancelled"
    assert uploads.chunk_states(batch.id) == [ChunkState.CANCELLED]
    assert uploads.state_of(batch.id) is BatchState.FINISHED
