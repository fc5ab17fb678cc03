"""What a cursor tells people, who stands by, and an ordinary beat beside ours."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler

from django_idempotent_tasks.beat import duty
from django_idempotent_tasks.beat.clock import aware
from django_idempotent_tasks.beat.overview import overview
from django_idempotent_tasks.beat.recent import KEPT, decode
from django_idempotent_tasks.ledger.moments import database_now
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import BeatCursor, IdempotencyKey, Leader
from tests.beat.bench import EPOCH, Bench
from tests.support.ledger.statements import postgresql_plan


def at(seconds: float) -> Any:
    return EPOCH + timedelta(seconds=seconds)


def glance() -> Any:
    """The overview, by the database's clock."""
    seen = overview(get_store(), database_now(get_store()))
    assert seen is not None
    return seen


def test_a_cursor_tells_what_comes_next_and_the_keys_of_what_was_sent_last(bench: Bench) -> None:
    entry = bench.every(10)
    beat = bench.beat()
    bench.tick(beat)
    assert bench.cursor(entry).next_due_at == at(10)
    for _ in range(KEPT + 2):
        bench.tick(beat, after=10)
    cursor = bench.cursor(entry)
    past = decode(cursor.recent)
    assert [each.due for each in past] == [at(seconds) for seconds in range(120, 20, -10)]
    assert (past[0].digest, cursor.next_due_at) == (cursor.last_digest, at(130))
    keys = IdempotencyKey.objects.filter(digest__in=[each.digest for each in past])
    assert {key.key_text for key in keys} == {f"beat:{entry.pk}:{each.due.isoformat()}" for each in past}


def test_an_entry_that_is_disabled_or_has_run_its_once_has_nothing_that_comes_next(bench: Bench) -> None:
    entry, once = bench.every(10), bench.every(10, "once", one_off=True)
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=10)
    assert bench.cursor(once).next_due_at is None
    PeriodicTask.objects.filter(pk=entry.pk).update(enabled=False)
    bench.read_again(beat)
    bench.tick(beat, after=1)
    assert bench.cursor(entry).next_due_at is None


@pytest.mark.parametrize("left", [None, -3600])
def test_what_comes_next_is_also_told_of_a_cursor_that_an_older_beat_has_left(
    bench: Bench, left: int | None
) -> None:
    entry = bench.every(10)
    bench.tick(bench.beat())
    BeatCursor.objects.update(next_due_at=left and at(left))
    bench.tick(bench.beat(), after=1)
    assert (bench.cursor(entry).next_due_at, bench.cursor(entry).last_due_at) == (at(10), EPOCH)


@pytest.mark.parametrize(("policy", "number"), [("coalesce", 59), ("skip", 60), ("all", 0)])
def test_what_was_passed_over_is_counted_on_the_cursor(
    bench: Bench, settings: Any, policy: str, number: int
) -> None:
    settings.IDEMPOTENT_TASKS = {"MISFIRE": policy}
    entry = bench.every(60)
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=3600 + 40)
    cursor = bench.cursor(entry)
    assert (cursor.passed_over, cursor.passed_over_at) == (number, bench.now if number else None)


def test_a_beat_that_stands_by_says_so_until_it_stops_or_leads(bench: Bench) -> None:
    leader, standby = bench.beat(), bench.beat()
    bench.tick(leader, leads=False)
    bench.tick(standby, leads=False)
    seen = glance()
    assert (seen.leader.holder, [each.holder for each in seen.standbys]) == (leader.holder, [standby.holder])
    standby.close()
    assert glance().standbys == []
    standby = bench.beat()
    bench.tick(standby, leads=False)
    leader.close()
    bench.tick(standby, leads=False)
    assert (glance().leader.holder, glance().standbys) == (standby.holder, [])
    third = bench.beat()
    bench.tick(third, leads=False)
    with shifted(duty.LEASE + 1):
        assert glance().standbys == [], "a beat that was killed is gone with its lease"
    with shifted(7200):
        bench.tick(bench.beat(), leads=False)
        assert not Leader.objects.filter(name__startswith="beat:").exists()


def ordinary(bench: Bench, entry: PeriodicTask, *, late: float = 7) -> None:
    """What an ordinary beat does with an entry that is due: it sends it, and writes that down."""
    scheduler = DatabaseScheduler(app=bench.app, lazy=True)
    found = scheduler.schedule[entry.name]
    found._default_now = lambda: bench.now + timedelta(milliseconds=late)
    scheduler.apply_entry(scheduler.reserve(found), producer=None)
    scheduler.sync()


def test_an_ordinary_beat_beside_ours_is_told_of_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    entry, other = bench.every(10), bench.every(10, "other")
    beat = bench.beat()
    bench.tick(beat)
    for _ in range(3):
        bench.tick(beat, after=10)
        ordinary(bench, entry)
    bench.tick(beat, after=10)
    said = [record.getMessage() for record in caplog.records if "ordinary beat" in record.getMessage()]
    assert len(said) == 1
    assert said[0].startswith("An ordinary beat also sent entry (at ")
    assert bench.cursor(entry).stranger_at == at(30.007)
    assert bench.cursor(other).stranger_at is None


def test_an_ordinary_beat_that_was_a_little_earlier_and_wrote_a_little_later_is_noticed(bench: Bench) -> None:
    entry = bench.every(10)
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=10)
    bench.tick(beat, after=10)
    ordinary(bench, entry, late=-7)
    bench.tick(beat, after=10)
    assert bench.cursor(entry).stranger_at == at(19.993)


def test_an_ordinary_beat_is_also_noticed_between_two_occurrences(bench: Bench) -> None:
    entry = bench.every(3600)
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=3600)
    ordinary(bench, entry)
    bench.read_again(beat)
    bench.tick(beat, after=60)
    assert bench.cursor(entry).stranger_at == at(3600.007)


def test_edits_and_an_ordinary_beat_that_was_stopped_before_ours_began_are_no_strangers(bench: Bench) -> None:
    entry = bench.every(10)
    ordinary(bench, entry)
    beat = bench.beat()
    bench.tick(beat, after=1)
    bench.tick(beat, after=10)
    opened = PeriodicTask.objects.get(pk=entry.pk)  # in the admin, while ours goes on
    bench.tick(beat, after=10)
    opened.description = "edited"
    opened.save()
    bench.tick(beat, after=10)
    for enabled in (False, True):
        opened.refresh_from_db()
        opened.enabled = enabled
        opened.save()
        bench.tick(beat, after=10)
    PeriodicTask.objects.update(last_run_at=None)
    bench.read_again(beat)
    bench.tick(beat, after=10)
    beat.close()
    bench.now += timedelta(seconds=5)
    ordinary(bench, entry)  # between two of ours, instead of them
    bench.tick(bench.beat(), after=10)
    assert bench.cursor(entry).stranger_at is None


def test_what_needs_a_person_is_found_by_the_cursors(bench: Bench) -> None:
    assert glance().leader is None
    bench.now = aware(database_now(get_store()))
    entry, idle = bench.every(10), bench.every(10, "disabled")
    beat = bench.beat()
    bench.tick(beat)
    seen = glance()
    assert (seen.is_led, seen.has_entries, seen.overdue, seen.strangers) == (True, True, [], [])
    PeriodicTask.objects.filter(pk=idle.pk).update(enabled=False)
    BeatCursor.objects.filter(pk=entry.pk).update(stranger_at=database_now(get_store()))
    with shifted(120):
        seen = glance()
    assert (seen.is_led, [each.name for each in seen.overdue]) == (False, ["entry"])
    assert [each.name for each in seen.strangers] == ["entry"]
    with shifted(25 * 3600):
        assert glance().strangers == []


@pytest.mark.postgresql
@pytest.mark.skipif(connection.vendor != "postgresql", reason="it reads PostgreSQL's plans")
def test_a_glance_reads_ranges_of_the_cursors_indexes(bench: Bench) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("the plan is PostgreSQL's")
    bench.tick(bench.beat())
    soon = database_now(get_store()) + timedelta(hours=1)
    BeatCursor.objects.bulk_create(
        BeatCursor(periodic_task_id=number, schedule="x", updated_at=soon, next_due_at=soon)
        for number in range(3000)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE django_idempotent_tasks_beatcursor")
    plan = postgresql_plan(lambda _: glance())
    indexes = {access.index for access in plan if access.table == "django_idempotent_tasks_beatcursor"}
    assert indexes == {"idem_beat_next_due", "idem_beat_stranger"}
