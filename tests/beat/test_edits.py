"""Entries are edited while beat runs: what was due stays due, and nothing becomes due that was not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django_celery_beat.models import ClockedSchedule, IntervalSchedule, PeriodicTask

from django_idempotent_tasks.beat import cursors, dispatch
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.models import BeatCursor, IdempotencyKey
from django_idempotent_tasks.states import State
from tests.beat.bench import EPOCH, Bench


def test_an_edit_of_one_entry_makes_no_other_due(bench: Bench) -> None:
    week, _ = IntervalSchedule.objects.get_or_create(every=7, period="days")
    old = EPOCH - timedelta(days=6)
    PeriodicTask.objects.bulk_create(
        PeriodicTask(name=f"{number}", task="shop.report", interval=week, last_run_at=old, total_run_count=3)
        for number in range(100)
    )
    beat = bench.beat()
    bench.tick(beat)
    entry = PeriodicTask.objects.get(name="5")
    entry.args = "[1]"
    entry.save()
    bench.tick(beat, after=5)
    assert bench.names() == []
    bench.tick(beat, after=86_400)
    bench.look(beat)
    assert len(bench.names()) == 100


def test_edits_just_before_the_time_and_at_every_tick_skip_nothing(bench: Bench) -> None:
    entry = bench.cron("*")
    beat = bench.beat()
    bench.tick(beat)
    for number in range(24):
        entry.kwargs = f'{{"number": {number}}}'
        entry.save()
        bench.tick(beat, after=7.5)
    assert bench.sent() == [60, 120, 180]


def test_another_schedule_begins_with_the_edit(bench: Bench) -> None:
    entry = bench.every(86_400)
    beat = bench.beat()
    bench.tick(beat)
    entry.interval = IntervalSchedule.objects.create(every=10, period="seconds")
    entry.save()
    bench.tick(beat, after=3600)
    assert bench.sent() == []
    bench.tick(beat, after=10)
    assert bench.sent() == [3610]


def test_a_schedule_that_is_edited_itself_is_noticed(bench: Bench) -> None:
    entry = bench.every(86_400)
    beat = bench.beat()
    bench.tick(beat)
    IntervalSchedule.objects.filter(pk=entry.interval_id).update(every=10)
    bench.read_again(beat)
    bench.tick(beat)
    bench.tick(beat, after=10)
    assert bench.sent() == [10]


def test_a_save_is_noticed_at_the_next_tick_and_an_update_within_a_minute(bench: Bench) -> None:
    entry = bench.every(10)
    beat = bench.beat()
    bench.tick(beat)
    entry.enabled = False
    entry.save()
    bench.tick(beat, after=10)
    assert bench.sent() == []
    PeriodicTask.objects.update(enabled=True)
    bench.tick(beat)
    bench.read_again(beat)
    bench.tick(beat)
    bench.tick(beat, after=10)
    assert bench.sent() == [20]


@pytest.mark.parametrize("by_update", [True, False], ids=["update()", "save()"])
def test_an_entry_that_is_enabled_again_begins_anew_and_has_missed_nothing(
    bench: Bench, by_update: bool
) -> None:
    entry = bench.cron("0")
    beat = bench.beat()
    bench.tick(beat)
    for enabled, after in ((False, 300), (True, 7200)):
        if by_update:
            PeriodicTask.objects.update(enabled=enabled)
        else:
            entry.enabled = enabled
            entry.save()
        bench.now += timedelta(seconds=after)
        bench.read_again(beat)
        bench.tick(beat)
    assert bench.sent() == []
    bench.tick(beat, after=3300)
    assert bench.sent() == [3 * 3600]


def test_an_entry_begins_when_it_was_saved_and_not_when_beat_noticed(bench: Bench) -> None:
    beat = bench.beat()
    bench.tick(beat)
    entry = bench.cron("1")
    PeriodicTask.objects.filter(pk=entry.pk).update(date_changed=EPOCH + timedelta(seconds=55))
    bench.tick(beat, after=65)
    assert bench.sent() == [60]


def test_a_first_time_is_kept_however_often_beat_starts_anew(bench: Bench) -> None:
    bench.every(10)
    for _ in range(10):
        bench.tick(bench.beat(), after=4)
    assert bench.sent() == [14, 24, 34]


def test_of_a_deleted_entry_nothing_is_left(bench: Bench) -> None:
    entry = bench.every(10)
    beat = bench.beat()
    bench.tick(beat)
    entry.delete()
    bench.tick(beat, after=10)
    assert not BeatCursor.objects.exists()
    assert bench.sent() == []


def test_an_entry_that_runs_once_runs_once_and_again_when_it_is_enabled_again(bench: Bench) -> None:
    entry = bench.every(10, one_off=True, headers='{"idempotent_beat": {"misfire": "all"}}')
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=35)
    bench.tick(beat, after=10)
    entry.refresh_from_db()
    assert (bench.sent(), entry.enabled, entry.total_run_count) == ([10], False, 1)
    PeriodicTask.objects.update(enabled=True)
    bench.read_again(beat)
    bench.tick(beat)
    bench.tick(beat, after=10)
    assert bench.sent() == [55]


def test_a_clocked_entry_runs_at_its_time_also_when_that_was_missed(bench: Bench) -> None:
    moment = ClockedSchedule.objects.create(clocked_time=EPOCH + timedelta(seconds=30))
    entry = bench.entry("once", clocked=moment, one_off=True)
    beat = bench.beat()
    bench.tick(beat)
    assert bench.sent() == []
    bench.tick(beat, after=3600)
    bench.tick(beat, after=3600)
    assert bench.sent() == [30]
    PeriodicTask.objects.update(enabled=True)
    bench.read_again(beat)
    bench.tick(beat, after=10)
    entry.refresh_from_db()
    assert (bench.sent(), entry.enabled) == ([], False), "its only time was sent"
    entry.clocked = ClockedSchedule.objects.create(clocked_time=EPOCH + timedelta(days=1))
    entry.enabled = True
    entry.save()
    bench.tick(beat)
    bench.tick(beat, after=86_400)
    assert bench.sent() == [86_400]


def test_an_entry_begins_at_its_start_and_ends_at_its_end(bench: Bench) -> None:
    entry = bench.every(10, start_time=EPOCH + timedelta(seconds=25), expires=EPOCH + timedelta(seconds=55))
    beat = bench.beat()
    bench.tick(beat)
    for _ in range(8):
        bench.tick(beat, after=10)
    assert bench.sent() == [25, 35, 45]
    entry.refresh_from_db()
    assert entry.enabled is False


def test_a_start_that_is_past_is_the_grid_of_an_interval(bench: Bench) -> None:
    bench.every(60, start_time=EPOCH - timedelta(seconds=75))
    beat = bench.beat()
    bench.tick(beat)
    assert bench.sent() == [-15], "it has never run, and its start is past"
    bench.tick(beat, after=45)
    assert bench.sent() == [45]


def test_a_crontab_with_a_start_does_not_run_off_its_grid(bench: Bench) -> None:
    bench.cron("0", start_time=EPOCH + timedelta(minutes=17))
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=17 * 60)
    bench.tick(beat, after=43 * 60)
    assert bench.sent() == [3600]


def test_what_another_scheduler_has_sent_is_where_ours_goes_on(bench: Bench) -> None:
    ran = EPOCH - timedelta(seconds=4)
    bench.every(10, "interval", last_run_at=ran, total_run_count=7)
    bench.cron("0", "crontab", last_run_at=EPOCH - timedelta(minutes=70), total_run_count=7)
    done = bench.every(10, "once", last_run_at=ran, total_run_count=1, one_off=True)
    beat = bench.beat()
    bench.tick(beat)
    assert bench.sent() == [0], "an hour ago was missed, now is the latest"
    bench.tick(beat, after=7)
    assert bench.sent() == [6]
    done.refresh_from_db()
    assert done.enabled is False


def test_a_beat_that_slept_while_another_took_an_edit_over_does_not_set_it_back(bench: Bench) -> None:
    entry = bench.every(60)
    slow, other = bench.beat(), bench.beat()
    bench.tick(slow, other)
    before = bench.cursor(entry)
    entry.interval = IntervalSchedule.objects.create(every=10, period="seconds")
    entry.save()
    (stale,) = slow._entries.read()
    bench.tick(other, after=5)
    bench.tick(other, after=10)
    moved = bench.cursor(entry)
    assert moved.last_due_at == EPOCH + timedelta(seconds=15)

    cursors._begin_anew(stale, before.last_due_at, before.schedule, EPOCH, get_store())
    assert bench.cursor(entry) == moved
    assert (bench.cursor(entry).last_due_at, stale.last_due_at) == (moved.last_due_at, moved.last_due_at)
    cursors.place([], now=EPOCH, store=get_store())
    assert bench.cursor(entry).schedule == moved.schedule, "it was moved after the look of this one"


@pytest.mark.parametrize("own", [True, False], ids=["the entry itself", "another entry"])
def test_an_edit_between_sending_and_writing_down_sends_nothing_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    entry, other = bench.cron("*"), bench.cron("0", "other", hour="3")
    send = dispatch._send

    def send_while_somebody_saves(*words: Any) -> Any:
        found = send(*words)
        PeriodicTask.objects.get(pk=entry.pk if own else other.pk).save()
        return found

    monkeypatch.setattr(dispatch, "_send", send_while_somebody_saves)
    beat = bench.beat()
    bench.tick(beat)
    for number in range(90):
        PeriodicTask.objects.get(pk=other.pk if number % 2 else entry.pk).save()
        bench.tick(beat, after=2)
    assert bench.sent() == [60, 120, 180]
    entry.refresh_from_db()
    assert entry.total_run_count == 3


def test_a_task_that_outlasts_its_period_is_sent_once_a_time_however_often_entries_are_saved(
    bench: Bench,
) -> None:
    bench.post.task(name="shop.long", reserve=False, key=())
    entry, other = bench.cron("*", task="shop.long"), bench.cron("0", "other", hour="3")
    beat = bench.beat()
    bench.tick(beat)
    for number in range(90):
        (other if number % 3 else entry).save()
        bench.tick(beat, after=2)
        IdempotencyKey.objects.filter(state=State.PENDING).update(state=State.RUNNING)  # and stays so
    assert bench.sent() == [60, 120, 180]
    assert IdempotencyKey.objects.count() == 3
