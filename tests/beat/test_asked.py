"""A run by hand: an occurrence as any other, beside the schedule and never beside one that is unfinished."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from django.db import connection, transaction
from django_celery_beat.models import PeriodicTask

from django_idempotent_tasks import IdempotentTask
from django_idempotent_tasks.beat.asked import run_now
from django_idempotent_tasks.beat.recent import decode
from django_idempotent_tasks.exceptions import ConfigurationError
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.sweep import sweep_once
from tests.beat.bench import EPOCH, Bench
from tests.support.post import no_broker


@pytest.fixture
def entry(bench: Bench) -> PeriodicTask:
    """An entry of an idempotent task."""

    def ours() -> None:
        """Nobody runs it."""

    bench.app.task(ours, base=IdempotentTask, name="shop.ours", key=(), shared=False)
    return bench.every(10, task="shop.ours", args="[]")


def ask(bench: Bench, entry: PeriodicTask) -> IdempotencyKey | None:
    return run_now(entry, by="ann", app=bench.app, store=get_store())


def test_a_run_by_hand_is_a_key_and_a_message_and_does_not_move_the_schedule(
    bench: Bench, entry: PeriodicTask
) -> None:
    beat = bench.beat()
    bench.tick(beat)
    assert ask(bench, entry) is None
    (message,) = bench.post.arrived()
    key = IdempotencyKey.objects.get()
    assert (key.state, key.task_id) == (State.PENDING, message["id"])
    assert key.key_text == f"beat:{entry.pk}:now:{message['periodic_due_at']}"
    cursor = bench.cursor(entry)
    assert (cursor.last_due_at, cursor.last_digest) == (EPOCH, key.digest)
    assert [(each.digest, each.by) for each in decode(cursor.recent)] == [(key.digest, "ann")]
    entry.refresh_from_db()
    assert entry.total_run_count == 1
    bench.tick(beat, after=10)
    assert bench.sent() == [10]
    assert bench.cursor(entry).stranger_at is None


@pytest.mark.parametrize("state", [State.PENDING, State.RUNNING, State.RETRY])
def test_it_is_refused_while_an_occurrence_waits_or_runs(
    bench: Bench, entry: PeriodicTask, state: State
) -> None:
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=10)
    IdempotencyKey.objects.update(state=state)
    busy = ask(bench, entry)
    assert busy is not None
    assert busy.digest == bench.cursor(entry).last_digest
    IdempotencyKey.objects.update(state=State.SUCCEEDED)
    assert ask(bench, entry) is None
    assert ask(bench, entry) is not None
    assert len(bench.post.arrived()) == 2


def test_of_people_who_ask_at_once_one_is_heard_and_the_others_are_told(
    bench: Bench, entry: PeriodicTask
) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("a database in memory is one connection's")
    bench.tick(bench.beat())
    together = Barrier(4)

    def person(_number: int) -> bool:
        together.wait()
        try:
            with transaction.atomic():  # as in the admin, with the log
                return ask(bench, entry) is None
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(person, range(4))) == [False, False, False, True]


def test_an_earlier_occurrence_that_still_runs_keeps_it_from_running_too(
    bench: Bench, entry: PeriodicTask
) -> None:
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=10)
    first = bench.cursor(entry).last_digest
    bench.tick(beat, after=10)
    IdempotencyKey.objects.exclude(digest__in=[first]).update(state=State.SUCCEEDED)
    busy = ask(bench, entry)
    assert busy is not None
    assert busy.digest == first


def test_a_disabled_entry_runs_this_once_and_begins_anew_when_it_is_enabled(
    bench: Bench, entry: PeriodicTask
) -> None:
    PeriodicTask.objects.filter(pk=entry.pk).update(enabled=False)
    assert ask(bench, entry) is None
    assert len(bench.post.arrived()) == 1
    beat = bench.beat()
    bench.tick(beat, after=600)
    entry.enabled = True
    entry.save()
    bench.tick(beat, after=1)
    bench.tick(beat, after=10)
    assert bench.sent() == [611]


def test_nothing_is_sent_where_it_was_rolled_back_and_the_sweeper_sends_it_where_the_broker_is_down(
    bench: Bench, entry: PeriodicTask
) -> None:
    with transaction.atomic():
        ask(bench, entry)
        transaction.set_rollback(True)
    assert (bench.post.arrived(), IdempotencyKey.objects.count()) == ([], 0)
    with no_broker(bench.post):
        assert ask(bench, entry) is None
    assert bench.post.arrived() == []
    with shifted(10):
        sweep_once(bench.app, get_store())
    assert len(bench.post.arrived()) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"args": "{"},
        {"args": "5"},
        {"kwargs": "[1]"},
        {"headers": "{"},
        {"headers": "[]"},
        {"headers": "null"},
        {"headers": '{"idempotent_beat": 7}'},
        {"interval": None},
        {"expires": EPOCH},
    ],
)
def test_what_cannot_be_sent_is_an_error_with_its_reason_and_changes_nothing(
    bench: Bench, entry: PeriodicTask, wrong: dict[str, Any]
) -> None:
    PeriodicTask.objects.filter(pk=entry.pk).update(**wrong)
    entry.refresh_from_db()
    with pytest.raises(ConfigurationError):
        ask(bench, entry)
    entry.refresh_from_db()
    assert (entry.enabled, entry.total_run_count, IdempotencyKey.objects.count()) == (True, 0, 0)


def test_a_run_by_hand_counts_for_overlap(bench: Bench, entry: PeriodicTask) -> None:
    PeriodicTask.objects.filter(pk=entry.pk).update(headers='{"idempotent_beat": {"overlap": "skip"}}')
    entry.refresh_from_db()
    beat = bench.beat()
    bench.tick(beat)
    assert ask(bench, entry) is None
    bench.post.arrived()
    bench.tick(beat, after=10)
    assert bench.sent() == []
    assert (bench.cursor(entry).passed_over, bench.cursor(entry).passed_over_at) == (1, bench.now)
    assert bench.now - EPOCH == timedelta(seconds=10)
