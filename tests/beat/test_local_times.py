"""Without USE_TZ, in three time zones: columns hold local times, and an hour comes twice in one of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django_celery_beat.models import PeriodicTask

from django_idempotent_tasks.beat.clock import Clock, aware, stored
from django_idempotent_tasks.beat.overview import overview
from django_idempotent_tasks.ledger.moments import database_now, exact, of_column, shifted
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.models import BeatCursor, HourlyCount, IdempotencyKey
from django_idempotent_tasks.sweeper.hours import count_hours
from tests.beat.bench import Bench
from tests.support.keys import Keys

ZONES = ("UTC", "America/New_York", "Asia/Kolkata", "Pacific/Kiritimati")
#: The two rounds of the hour that comes twice in New York.
TWICE = {
    "first": datetime(2026, 11, 1, 5, 30, tzinfo=UTC),
    "second": datetime(2026, 11, 1, 6, 30, tzinfo=UTC),
}

has_zones = connection.features.supports_timezones


@pytest.fixture(params=ZONES)
def zone(request: pytest.FixtureRequest, settings: Any, bench: Bench) -> Iterator[str]:  # noqa: ARG001  it commits
    """A project without USE_TZ, and a connection that is begun in it."""
    connection.close()
    settings.USE_TZ, settings.TIME_ZONE = False, request.param
    yield request.param
    connection.close()


@pytest.mark.usefixtures("zone")
def test_an_interval_that_is_edited_begins_anew(bench: Bench) -> None:
    entry = bench.every(10)
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=10)
    assert bench.sent() == [10]
    _every_3_seconds(bench, entry)
    bench.read_again(beat)
    bench.tick(beat, after=1)
    for _ in range(3):
        bench.tick(beat, after=3)
    assert bench.sent() == [14, 17, 20]


def _every_3_seconds(bench: Bench, entry: PeriodicTask) -> None:
    other = bench.every(3, "other", enabled=False)
    PeriodicTask.objects.filter(pk=entry.pk).update(interval=other.interval)


@pytest.mark.parametrize("zone", ["America/New_York"], indirect=True)
@pytest.mark.parametrize("moment", TWICE.values(), ids=TWICE)
@pytest.mark.usefixtures("zone")
def test_an_edit_is_taken_over_in_an_hour_that_comes_twice(bench: Bench, moment: datetime) -> None:
    bench.now = moment
    entry = bench.every(10)
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=10)
    assert len(bench.sent()) == 1
    _every_3_seconds(bench, entry)
    bench.read_again(beat)
    bench.tick(beat, after=1)
    for _ in range(3):
        bench.tick(beat, after=3)
    assert len(bench.sent()) == 3, "the edit is taken over"
    if has_zones:  # else the columns themselves cannot tell the two rounds apart
        last = bench.cursor(entry).last_due_at
        assert last is not None
        assert aware(last) == bench.now


@pytest.mark.usefixtures("zone")
def test_beat_goes_by_the_time_that_it_is() -> None:
    clock = Clock()
    clock.set(database_now(get_store()))
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.usefixtures("zone")
def test_what_is_overdue_is_so_by_the_time_that_it_is(bench: Bench) -> None:
    bench.now = datetime.now(UTC)
    entry = bench.every(3600)
    bench.tick(bench.beat())
    seen = overview(get_store(), database_now(get_store()))
    assert seen is not None
    assert (seen.is_led, seen.overdue) == (True, [])
    BeatCursor.objects.filter(pk=entry.pk).update(next_due_at=_local(bench.now - timedelta(minutes=5)))
    seen = overview(get_store(), database_now(get_store()))
    assert seen is not None
    assert [each.name for each in seen.overdue] == ["entry"]


def _local(moment: datetime) -> datetime:
    """As Django's columns have it."""
    return stored(moment)


@pytest.mark.usefixtures("zone")
def test_an_ordinary_beat_is_noticed(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    entry = bench.every(10)
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=10)
    theirs = _local(bench.now + timedelta(seconds=3))
    PeriodicTask.objects.filter(pk=entry.pk).update(last_run_at=theirs)
    bench.read_again(beat)
    bench.tick(beat, after=5)
    assert bench.cursor(entry).stranger_at is not None
    assert "An ordinary beat also sent" in caplog.text


@pytest.mark.parametrize("zone", ["America/New_York"], indirect=True)
@pytest.mark.parametrize("moment", TWICE.values(), ids=TWICE)
@pytest.mark.usefixtures("zone")
def test_a_moment_of_the_ledger_is_found_by_what_was_read_of_it(moment: datetime) -> None:
    """As lists page through rows, and as redrives go on after the last one."""
    key = Keys("default").reserved().identity
    _set(key.digest, moment)
    row = IdempotencyKey.objects.get(pk=key.digest)
    assert exact(row.created_at) == moment
    rows = IdempotencyKey.objects.filter(pk=key.digest)
    assert rows.filter(created_at=row.created_at).exists()
    assert rows.filter(created_at__gte=row.created_at, created_at__lte=row.created_at).exists()
    hour = timedelta(hours=1)
    assert not rows.filter(
        created_at__gt=shifted(row.created_at, -hour), created_at__lt=row.created_at
    ).exists()
    assert rows.filter(created_at__gt=shifted(row.created_at, -hour)).exists()
    assert exact(shifted(row.created_at, hour)) == moment + hour
    assert exact(of_column(moment.astimezone(ZoneInfo("America/New_York")))) == moment


def _set(digest: Any, moment: datetime) -> None:
    """As the statements of the ledger write it: a moment, or UTC."""
    given = moment if has_zones else moment.replace(tzinfo=None)
    with connection.cursor() as cursor:
        key = IdempotencyKey._meta.pk.get_db_prep_value(digest, connection)
        table = IdempotencyKey._meta.db_table
        cursor.execute(f"UPDATE {table} SET created_at = %s WHERE digest = %s", [given, key])  # noqa: S608


@pytest.mark.usefixtures("zone")
def test_hours_are_counted_once() -> None:
    key = Keys("default").reserved().identity
    now = exact(database_now(get_store()))
    _set(key.digest, now - timedelta(hours=2))
    for _ in range(30):
        count_hours(get_store())
    assert [row.created for row in HourlyCount.objects.exclude(task="")] == [1]
