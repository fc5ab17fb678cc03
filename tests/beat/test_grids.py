"""The nominal times are those of Celery's schedule objects, also where clocks change, and each comes once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import schedules

from django_idempotent_tasks.beat.grid import Grid, NoTime

tzcrontab = pytest.importorskip("django_celery_beat.tzcrontab")
clockedschedule = pytest.importorskip("django_celery_beat.clockedschedule")

NEW_YORK, BERLIN, LORD_HOWE, TOKYO = "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Tokyo"
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def crontab(zone: str, minute: str, hour: str = "*") -> Any:
    return tzcrontab.TzAwareCrontab(minute=minute, hour=hour, tz=ZoneInfo(zone))


def local(zone: str, *parts: int, fold: int = 0) -> datetime:
    return datetime(*parts, tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC)  # type: ignore[misc,arg-type]


def times(schedule: Any, since: datetime, until: datetime) -> list[datetime]:
    return list(Grid(schedule).until(since, until))


def shown(zone: str, moments: list[datetime]) -> list[str]:
    return [moment.astimezone(ZoneInfo(zone)).strftime("%d %H:%M %z") for moment in moments]


#: Zone, minute, hour, the day before a change of clocks, and the times of three days.
CHANGES = {
    "New York, spring, in the hour that is left out": (
        (NEW_YORK, "30", "2", (2026, 3, 7)),
        ["07 02:30 -0500", "08 03:30 -0400", "09 02:30 -0400"],
    ),
    "New York, autumn, in the hour that comes twice": (
        (NEW_YORK, "30", "1", (2026, 10, 31)),
        ["31 01:30 -0400", "01 01:30 -0400", "02 01:30 -0500"],
    ),
    "New York, autumn, outside of it": (
        (NEW_YORK, "30", "2", (2026, 10, 31)),
        ["31 02:30 -0400", "01 02:30 -0500", "02 02:30 -0500"],
    ),
    "Berlin, spring": (
        (BERLIN, "30", "2", (2026, 3, 28)),
        ["28 02:30 +0100", "29 03:30 +0200", "30 02:30 +0200"],
    ),
    "Berlin, autumn": (
        (BERLIN, "30", "2", (2026, 10, 24)),
        ["24 02:30 +0200", "25 02:30 +0200", "26 02:30 +0100"],
    ),
    "Lord Howe, spring, by half an hour": (
        (LORD_HOWE, "15", "2", (2026, 10, 3)),
        ["03 02:15 +1030", "04 02:45 +1100", "05 02:15 +1100"],
    ),
    "Lord Howe, autumn": (
        (LORD_HOWE, "45", "1", (2026, 4, 4)),
        ["04 01:45 +1100", "05 01:45 +1100", "06 01:45 +1030"],
    ),
    "Tokyo, which changes nothing": (
        (TOKYO, "30", "2", (2026, 3, 28)),
        ["28 02:30 +0900", "29 02:30 +0900", "30 02:30 +0900"],
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_daily_time_comes_once_a_day_also_where_clocks_change(name: str) -> None:
    (zone, minute, hour, day), expected = CHANGES[name]
    begin = local(zone, *day)
    assert shown(zone, times(crontab(zone, minute, hour), begin, begin + 3 * DAY)) == expected


@pytest.mark.parametrize("minute", ["*", "*/15", "0", "30"])
@pytest.mark.parametrize("name", CHANGES)
def test_around_a_change_of_clocks_no_time_comes_twice_and_none_goes_back(name: str, minute: str) -> None:
    (zone, _, _, day), _ = CHANGES[name]
    begin = local(zone, *day) + 20 * HOUR
    found = times(crontab(zone, minute), begin, begin + 12 * HOUR)
    assert found == sorted(set(found))
    assert max(later - sooner for sooner, later in pairwise(found)) <= 2 * HOUR, "it goes on after the change"
    assert found[-1] > begin + 11 * HOUR


@pytest.mark.parametrize("minute", ["*", "*/15", "0", "30"])
@pytest.mark.parametrize("step", range(0, 300, 7))
def test_a_beat_that_begins_around_an_hour_that_comes_twice_is_not_sent_back(minute: str, step: int) -> None:
    begin = datetime(2026, 11, 1, 4, 30, tzinfo=UTC) + step * MINUTE
    due = Grid(crontab(NEW_YORK, minute)).after(begin)
    assert due is not None
    assert begin < due <= begin + 2 * HOUR


@pytest.mark.parametrize("name", CHANGES)
def test_the_times_are_those_at_which_celerys_own_look_says_due(name: str) -> None:
    """Looked at each minute, with what Celery keeps: the moment of the last run."""
    (zone, minute, hour, day), _ = CHANGES[name]
    begin = local(zone, *day)
    schedule, sent, last = crontab(zone, minute, hour), [], begin
    for step in range(3 * 24 * 60):
        now = begin + step * MINUTE
        schedule.nowfun = lambda now=now: now
        if schedule.is_due(last).is_due:
            sent.append(now)
            last = now
    assert sent == times(crontab(zone, minute, hour), begin, begin + 3 * DAY - MINUTE)


def test_an_interval_is_counted_from_its_last_nominal_time() -> None:
    begin = datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)
    grid = Grid(schedules.schedule(10))
    assert [due - begin for due in grid.until(begin, begin + MINUTE)] == [
        timedelta(seconds=10 * number) for number in range(1, 7)
    ]


def test_an_interval_with_a_start_begins_there_and_stays_on_its_grid() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    grid = Grid(schedules.schedule(HOUR), start=start)
    assert grid.after(None) == start
    assert grid.floor(start + 90 * MINUTE) == start + HOUR
    assert grid.floor(start - HOUR) == start - HOUR
    assert Grid(schedules.schedule(HOUR)).floor(start + MINUTE) == start + MINUTE


def test_a_crontab_with_a_start_begins_with_its_first_time_from_there_on() -> None:
    for minute in (0, 17, 30):
        start = datetime(2026, 1, 1, 12, minute, tzinfo=UTC)
        first = datetime(2026, 1, 1, 12 if minute == 0 else 13, 0, tzinfo=UTC)
        assert Grid(crontab("UTC", "0"), start=start).after(None) == first


def test_a_long_past_of_an_interval_is_one_step_on_the_same_grid() -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    grid, now = Grid(schedules.schedule(7)), begin + 365 * DAY + timedelta(seconds=3)
    near, passed = grid.leap(begin, now)
    assert near is not None
    assert near == begin + passed * timedelta(seconds=7)
    assert (near - begin) % timedelta(seconds=7) == timedelta(0)
    assert timedelta(0) < now - near <= timedelta(seconds=14)
    assert grid.leap(begin, begin + timedelta(seconds=6)) == (begin, 0)
    assert Grid(crontab("UTC", "0")).leap(begin, now) == (begin, 0)


def test_a_clocked_time_comes_once() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    grid = Grid(clockedschedule.clocked(moment))
    assert list(grid.until(None, moment + DAY)) == [moment]
    assert grid.after(moment) is None
    assert list(grid.until(None, moment - DAY)) == []


def test_a_sunrise_comes_once_a_day() -> None:
    pytest.importorskip("ephem")
    begin = datetime(2026, 3, 1, tzinfo=UTC)
    found = times(schedules.solar("sunrise", 52.5, 13.4), begin, begin + 60 * DAY)
    assert len(found) == 60
    assert all(DAY - 5 * MINUTE < later - sooner < DAY for sooner, later in pairwise(found))


def test_an_interval_of_nothing_is_an_error_and_no_storm() -> None:
    with pytest.raises(NoTime):
        Grid(schedules.schedule(0)).after(datetime(2026, 1, 1, tzinfo=UTC))
