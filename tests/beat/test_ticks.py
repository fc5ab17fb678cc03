"""What one beat sends: each time of the grid once, written down in one transaction."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import DataError
from django_celery_beat.models import PeriodicTask

from django_idempotent_tasks import IdempotentTask
from django_idempotent_tasks.beat.dispatch import dispatch, due_work
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import DuplicateAttempt, IdempotencyKey
from django_idempotent_tasks.states import Reason, State
from django_idempotent_tasks.sweeper.sweep import sweep_once
from tests.beat.bench import EPOCH, Bench
from tests.support.post import no_broker


def test_each_time_is_sent_once_by_its_nominal_time(bench: Bench) -> None:
    bench.every(10)
    beat = bench.beat()
    bench.tick(beat)
    for _ in range(20):
        bench.tick(beat, after=2.5)
    assert bench.sent() == [10, 20, 30, 40, 50]


def test_a_late_tick_does_not_move_the_grid(bench: Bench) -> None:
    bench.every(10)
    beat = bench.beat()
    bench.tick(beat)
    for _ in range(5):
        bench.tick(beat, after=13)
    assert bench.sent() == [10, 20, 30, 40, 50, 60]


def test_a_tick_says_when_the_next_time_is(bench: Bench) -> None:
    bench.every(3)
    beat = bench.beat()
    assert bench.tick(beat) == 3
    assert bench.tick(beat, after=1) == 2
    PeriodicTask.objects.all().delete()
    bench.read_again(beat)
    assert bench.tick(beat) == 5


def test_what_is_sent_is_counted_for_people(bench: Bench) -> None:
    entry = bench.every(10)
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=25)
    entry.refresh_from_db()
    assert (entry.total_run_count, entry.last_run_at) == (2, bench.now)
    assert bench.cursor(entry).last_due_at == EPOCH.replace(second=20)


def test_of_two_beats_that_both_believe_they_lead_each_time_is_sent_by_one(bench: Bench) -> None:
    bench.every(10, "often")
    bench.cron("*", "minutely")
    beats = [bench.beat() for _ in range(3)]
    bench.tick(*beats)
    for _ in range(13):
        bench.tick(*beats, after=10)
    assert bench.sent() == sorted([*range(10, 131, 10), 60, 120])


def test_a_beat_that_slept_between_its_look_and_its_sending_sends_nothing(bench: Bench) -> None:
    entry = bench.every(10)
    slow, other = bench.beat(), bench.beat()
    bench.tick(slow, other)
    bench.now += timedelta(seconds=10)
    work = due_work(slow.schedule["entry"], now=bench.now, store=get_store())
    assert work is not None
    bench.tick(other)
    bench.tick(other, after=10)
    assert dispatch([work], now=bench.now, store=get_store()) == 0
    assert bench.sent() == [10, 20]
    assert bench.cursor(entry).last_due_at == EPOCH.replace(second=20), "it was not set back"
    bench.tick(slow, after=10)
    assert bench.sent() == [30]


def test_a_cursor_that_is_set_back_sends_nothing_again(bench: Bench) -> None:
    entry = bench.every(10)
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=20)
    cursor = bench.cursor(entry)
    cursor.last_due_at = EPOCH
    cursor.save()
    bench.read_again(beat)
    bench.tick(beat)
    bench.tick(beat, after=10)
    assert bench.sent() == [10, 20, 30]
    entry.refresh_from_db()
    assert entry.total_run_count == 3


def test_a_plain_task_is_done_for_the_ledger_once_the_broker_has_it(bench: Bench) -> None:
    entry = bench.every(10)
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=10)
    key = bench.key(entry)
    assert (key.state, key.reason, key.message) == (State.SUCCEEDED, Reason.SENT, None)
    with shifted(400):
        sweep_once(bench.app, get_store())
    assert bench.sent() == [10]


def test_an_idempotent_task_is_reserved_and_runs_once_an_occurrence(bench: Bench) -> None:
    runs: list[int] = []

    def count(number: int = 0) -> None:
        runs.append(number)

    task = bench.post.task(count, name="shop.count", key="number", reserve=False)
    entry = bench.every(10, task="shop.count", kwargs='{"number": 7}')
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=10)
    assert bench.key(entry).state == State.PENDING
    bench.post.work(task)
    assert bench.key(entry).state == State.SUCCEEDED
    bench.tick(beat, after=10)
    bench.post.work(task)
    assert runs == [7, 7], "the same arguments, another occurrence"


def test_a_task_that_only_workers_know_as_idempotent_runs_once_an_occurrence(bench: Bench) -> None:
    entry = bench.every(10, task="shop.elsewhere")
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=10)
    runs: list[int] = []

    def note() -> None:
        runs.append(1)

    task = bench.app.task(base=IdempotentTask, key=(), name="shop.elsewhere", shared=False)(note)
    message = bench.post.arrived()[0]
    for _ in range(2):
        task.apply(task_id=message["id"], headers={"idempotency": message["idempotency"]})
    assert runs == [1]
    states = IdempotencyKey.objects.filter(key_text__startswith=f"beat:{entry.pk}:").values_list(
        "state", "reason"
    )
    assert sorted(states) == [(State.SUCCEEDED, Reason.DONE), (State.SUCCEEDED, Reason.SENT)]


def test_a_task_in_shadow_mode_is_sent_once_an_occurrence_and_each_copy_runs(bench: Bench) -> None:
    runs: list[int] = []

    def count(number: int = 0) -> None:
        runs.append(number)

    task = bench.post.task(count, name="shop.count", key="number", reserve=False, enforce=False)
    entry = bench.every(10, task="shop.count", kwargs='{"number": 7}')
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=10)
    (message,) = bench.post.arrived()
    for _ in range(2):
        task.apply((), {"number": 7}, task_id=message["id"], headers={"idempotency": message["idempotency"]})
    assert runs == [7, 7]
    keys = IdempotencyKey.objects.filter(key_text__startswith=f"beat:{entry.pk}:")
    sent, ran = (State.SUCCEEDED, Reason.SENT), (State.SUCCEEDED, Reason.DONE)
    assert sorted(keys.values_list("state", "reason")) == sorted([sent, ran])
    assert list(DuplicateAttempt.objects.values_list("place", "reason")) == [("shadow", "redelivered")]


def test_a_broker_that_is_down_at_the_due_time_delays_and_loses_nothing(bench: Bench) -> None:
    bench.every(10)
    beat = bench.beat()
    bench.tick(beat)
    with no_broker(bench.post):
        for _ in range(3):
            bench.tick(beat, after=10)
    assert bench.sent() == []
    assert set(IdempotencyKey.objects.values_list("state", flat=True)) == {State.PENDING}
    with shifted(1):
        sweep_once(bench.app, get_store())
    assert bench.sent() == [10, 20, 30]
    assert set(IdempotencyKey.objects.values_list("state", flat=True)) == {State.SUCCEEDED}
    with shifted(4000):
        sweep_once(bench.app, get_store())
    assert bench.sent() == []


def test_what_a_beat_wrote_down_and_did_not_live_to_send_is_sent_by_the_sweeper(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.every(10)
    beat = bench.beat()
    bench.tick(beat)
    with monkeypatch.context() as patch:
        patch.setattr("django_idempotent_tasks.beat.dispatch._send", lambda *_: [])
        bench.tick(beat, after=10)
    assert bench.sent() == []
    with shifted(31):
        sweep_once(bench.app, get_store())
    assert bench.sent() == [10]


def test_nothing_is_sent_and_nothing_moves_when_the_transaction_fails(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = bench.every(10)
    beat = bench.beat()
    bench.tick(beat)

    def fail(*_: Any) -> None:
        raise DataError

    with monkeypatch.context() as patch:
        patch.setattr("django_idempotent_tasks.beat.dispatch._count", fail)
        bench.tick(beat, after=10)
    assert bench.sent() == []
    assert not IdempotencyKey.objects.exists()
    assert bench.cursor(entry).last_due_at == EPOCH
    bench.tick(beat, after=40)
    assert bench.sent() == [50], "it is tried again; by now the times before count as missed"


def test_a_message_goes_where_the_entry_says_with_what_it_says(bench: Bench) -> None:
    bench.every(
        10,
        args="[1]",
        kwargs='{"a": "b"}',
        queue=f"{bench.post.queue}-other",
        priority=7,
        headers='{"tenant": "t42"}',
        expire_seconds=60,
    )
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=10)
    (message,) = bench.post.arrived(f"{bench.post.queue}-other")
    assert (message["args"], message["kwargs"], message["tenant"]) == ([1], {"a": "b"}, "t42")
    assert (message["periodic_task_name"], message["celery_beat_task"]) == ("entry", True)
    assert message["expires"] == "2026-01-05T12:01:10+00:00"
    assert message["properties"]["priority"] == 7
    assert message["periodic_due_at"] == "2026-01-05T12:00:10+00:00"


def test_many_that_are_due_at_once_are_all_sent(bench: Bench) -> None:
    cron = bench.cron("1", "0").crontab
    PeriodicTask.objects.bulk_create(
        PeriodicTask(name=f"{number}", task="shop.report", crontab=cron) for number in range(1, 120)
    )
    beat = bench.beat()
    bench.tick(beat)
    bench.now = EPOCH.replace(minute=1)
    while bench.tick(beat) == 0:
        pass
    assert len(set(bench.names())) == 120
