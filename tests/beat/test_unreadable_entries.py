"""Each periodic task is read for itself: what is wrong in one row stops no other entry, and is named."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    SolarSchedule,
)

from django_idempotent_tasks.beat.overview import overview
from django_idempotent_tasks.beat.recent import decode
from django_idempotent_tasks.ledger.moments import database_now
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.models import BeatCursor
from tests.beat.bench import Bench
from tests.beat.test_beat_command import idem


def _zone(task: PeriodicTask) -> None:
    crontab = CrontabSchedule.objects.create(minute="*/7", timezone="UTC")
    _attach(task, crontab=crontab)
    sql = "UPDATE django_celery_beat_crontabschedule SET timezone = 'Mars/Olympus' WHERE id = %s"
    with connection.cursor() as cursor:
        cursor.execute(sql, [crontab.pk])


def _crontab(**fields: str) -> Callable[[PeriodicTask], None]:
    return lambda task: _attach(task, crontab=CrontabSchedule.objects.create(timezone="UTC", **fields))


def _interval(every: int, period: str = "seconds") -> Callable[[PeriodicTask], None]:
    return lambda task: _attach(task, interval=IntervalSchedule.objects.create(every=every, period=period))


def _solar(event: str, latitude: float) -> Callable[[PeriodicTask], None]:
    def spoil(task: PeriodicTask) -> None:
        _attach(task, solar=SolarSchedule.objects.create(event=event, latitude=latitude, longitude=7))

    return spoil


def _fields(**fields: Any) -> Callable[[PeriodicTask], None]:
    return lambda task: PeriodicTask.objects.filter(pk=task.pk).update(**fields)


def _attach(task: PeriodicTask, **schedule: Any) -> None:
    PeriodicTask.objects.filter(pk=task.pk).update(**{"interval": None, **schedule})


def _clocked_that_is_gone(task: PeriodicTask) -> None:
    """As where a schedule was deleted past the constraints, which MySQL and SQLite let people switch off."""
    clocked = ClockedSchedule.objects.create(clocked_time="2026-01-05T12:00:20Z")
    _attach(task, clocked=clocked, one_off=True)
    with connection.constraint_checks_disabled(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET session_replication_role = replica")
        cursor.execute("DELETE FROM django_celery_beat_clockedschedule")
        if connection.vendor == "postgresql":
            cursor.execute("SET session_replication_role = DEFAULT")


def _start_that_no_date_holds(task: PeriodicTask) -> None:
    text = {"postgresql": "infinity", "sqlite": "2026-02-30 12:00:00"}[connection.vendor]
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE django_celery_beat_periodictask SET start_time = %s WHERE id = %s", [text, task.pk]
        )


BAD: dict[str, Callable[[PeriodicTask], None]] = {
    "a time zone that is unknown on this host": _zone,
    "a minute that is none": _crontab(minute="ninety"),
    "an hour that is none": _crontab(hour="25"),
    "a weekday that is none": _crontab(day_of_week="someday"),
    "a day that never comes": _crontab(day_of_month="30", month_of_year="2"),
    "an interval of 0": _interval(0),
    "an interval below 0": _interval(-5),
    "a period that is none": _interval(5, "fortnights"),
    "an interval that no duration holds": _interval(2_000_000_000, "days"),
    "a latitude that is none": _solar("sunrise", 123),
    "a solar event that is none": _solar("eclipse", 50),
    "a schedule that is gone": _clocked_that_is_gone,
    "no schedule": _fields(interval=None),
    "a start that no date holds": _start_that_no_date_holds,
    "args that are not JSON": _fields(args="{"),
    "args that are no list": _fields(args='{"a": 1}'),
    "args that are nested too deeply": _fields(args="[" * 100_000),
    "args with a type that raises": _fields(args='[{"__type__": "datetime", "__value__": "soon"}]'),
    "kwargs that are not JSON": _fields(kwargs="[1"),
    "kwargs that are no object": _fields(kwargs="[1]"),
    "headers that are not JSON": _fields(headers="{"),
    "headers that are no object": _fields(headers="[1]"),
    "a word for beat that is none": _fields(headers='{"idempotent_beat": {"misfire": "sometimes"}}'),
    "no task": _fields(task=""),
    "a task of blanks": _fields(task="  "),
}
if connection.vendor == "mysql":  # its driver reads what Python has not as NULL
    del BAD["a start that no date holds"]


@pytest.fixture
def bench(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr("django_idempotent_tasks.management.upkeep.beat.project_app", lambda: bench.app)
    return bench


@pytest.mark.parametrize("wrong", BAD)
def test_a_row_that_cannot_be_read_stops_no_other_at_the_start(
    bench: Bench, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad = _spoilt(bench, wrong)
    beat = bench.beat()
    bench.tick(beat)
    for _ in range(3):
        bench.read_again(beat)
        bench.tick(beat, after=10)
    assert bench.names() == ["a", "a", "a", "z", "z", "z"]
    _assert_named(bad, caplog)


@pytest.mark.parametrize("wrong", BAD)
def test_a_row_that_cannot_be_read_stops_no_other_after_an_edit_while_beat_runs(
    bench: Bench, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, bad, last = (bench.every(10, name) for name in ("a", "bad", "z"))
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=10)
    assert bench.names() == ["a", "bad", "z"]
    BAD[wrong](bad)
    for each in (first, last):  # with the bad one in one bite
        PeriodicTask.objects.filter(pk=each.pk).update(description="edited")
    for _ in range(3):
        bench.read_again(beat)
        bench.tick(beat, after=10)
    assert bench.names() == ["a", "a", "a", "z", "z", "z"]
    _assert_named(bad, caplog)


def _spoilt(bench: Bench, wrong: str) -> PeriodicTask:
    _first, bad, _last = (bench.every(10, name) for name in ("a", "bad", "z"))
    BAD[wrong](bad)
    return bad


def _assert_named(bad: PeriodicTask, caplog: pytest.LogCaptureFixture) -> None:
    """Once in the log; and by the probe, the status and the glance of the pages, with a remedy."""
    logged = [each.getMessage() for each in caplog.records if "'bad'" in each.getMessage()]
    assert len(logged) == 1, logged
    assert PeriodicTask.objects.filter(pk=bad.pk, enabled=True).exists(), "nobody has switched it off"
    code, facts = idem("health", "beat", "--max-age", "10000d")
    assert (code, list(facts["unreadable"]), facts["overdue"]) == (1, ["bad"], 0)
    problem = facts["unreadable"]["bad"]
    assert problem.endswith("."), problem
    assert problem in logged[0]
    printed = StringIO()
    with pytest.raises(SystemExit):
        call_command("idem", "health", "beat", stdout=printed)
    assert "Beat cannot read 1, and goes on with the others: bad" in printed.getvalue()
    facts = idem("status")[1]
    assert facts["beat"]["unreadable"] == ["bad"]
    assert "beat_unreadable" in [each["name"] for each in facts["findings"]]
    seen = overview(get_store(), database_now(get_store()))
    assert seen is not None
    assert [each.pk for each in seen.unreadable] == [bad.pk]


def test_the_remedy_names_the_time_zone_and_the_crontab_that_has_it(bench: Bench) -> None:
    bad = _spoilt(bench, "a time zone that is unknown on this host")
    (problem,) = idem("health", "beat")[1]["unreadable"].values()
    assert "Mars/Olympus" in problem
    assert "tzdata" in problem
    remedy = f"CrontabSchedule.objects.filter(pk={bad_crontab(bad)}).update(timezone='UTC')"
    assert remedy in problem
    exec(remedy, {"CrontabSchedule": CrontabSchedule})  # noqa: S102  it does what it says
    assert idem("health", "beat")[1]["unreadable"] == {}


def bad_crontab(task: PeriodicTask) -> int:
    pk: int = PeriodicTask.objects.values_list("crontab_id", flat=True).get(pk=task.pk)
    return pk


def test_a_row_that_is_mended_goes_on_and_is_named_no_longer(bench: Bench) -> None:
    bad = _spoilt(bench, "args that are not JSON")
    beat = bench.beat()
    bench.tick(beat)
    PeriodicTask.objects.filter(pk=bad.pk).update(args="[]")
    bench.read_again(beat)
    bench.tick(beat, after=10)
    bench.tick(beat, after=10)
    assert bench.names().count("bad") == 1
    assert idem("health", "beat")[1]["unreadable"] == {}
    assert idem("status")[1]["beat"]["unreadable"] == []


def test_a_row_that_one_host_could_not_read_for_a_while_has_missed_its_times(bench: Bench) -> None:
    """The schedule was not edited: what was due meanwhile is sent as after an outage."""
    bad = bench.every(10, "bad")
    beat = bench.beat()
    bench.tick(beat)
    PeriodicTask.objects.filter(pk=bad.pk).update(args="{")
    bench.read_again(beat)
    bench.tick(beat, after=25)
    PeriodicTask.objects.filter(pk=bad.pk).update(args="[]")
    bench.read_again(beat)
    bench.tick(beat, after=1)
    assert bench.sent()[-1] == 20


def test_a_row_that_cannot_be_read_and_is_switched_off_needs_nobody(bench: Bench) -> None:
    bad = _spoilt(bench, "an interval of 0")
    beat = bench.beat()
    bench.tick(beat)
    PeriodicTask.objects.filter(pk=bad.pk).update(enabled=False)
    bench.read_again(beat)
    bench.tick(beat, after=1)
    assert idem("status")[1]["beat"]["unreadable"] == []
    assert idem("health", "beat")[1]["unreadable"] == {}


def test_one_bad_row_among_many_costs_few_statements(
    bench: Bench, django_assert_max_num_queries: Any
) -> None:
    bad = _spoilt(bench, "a time zone that is unknown on this host")
    interval = IntervalSchedule.objects.get(every=10)
    PeriodicTask.objects.bulk_create(
        PeriodicTask(name=f"{number}", task="shop.report", interval=interval) for number in range(997)
    )
    from django_idempotent_tasks.beat.entries import Entries  # noqa: PLC0415

    entries = Entries(bench.app)
    with django_assert_max_num_queries(30):
        assert len(entries.read()) == 999
    with django_assert_max_num_queries(1):
        assert len(entries.read()) == 999
    assert list(entries.aside) == [bad.pk]


def test_a_last_time_that_no_date_holds_stops_no_other(bench: Bench) -> None:
    """Its own ``last_run_at`` is not what an entry is made of; a stranger may have written it."""
    if connection.vendor != "postgresql":
        pytest.skip("only PostgreSQL has a time that Python has not")
    _first, bad, _last = (bench.every(10, name) for name in ("a", "bad", "z"))
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=10)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE django_celery_beat_periodictask SET last_run_at = 'infinity' WHERE id = %s", [bad.pk]
        )
    for _ in range(2):
        bench.read_again(beat)
        bench.tick(beat, after=10)
    assert [name for name in bench.names() if name != "bad"] == ["a", "a", "a", "z", "z", "z"]


@pytest.mark.parametrize("wrong", ["[" * 20_000, '{"a": 1}', "[[1, 2, 3, 4]]", "nothing"])
def test_last_runs_that_cannot_be_read_stop_nothing(bench: Bench, wrong: str) -> None:
    """They are for people only; those that follow are kept again."""
    entry, _other = bench.every(10, "a"), bench.every(10, "z")
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=10)
    BeatCursor.objects.filter(pk=entry.pk).update(recent=wrong)
    PeriodicTask.objects.filter(pk=entry.pk).update(last_run_at=bench.now + timedelta(seconds=2))
    bench.read_again(beat)
    bench.tick(beat, after=10)
    assert bench.names() == ["a", "a", "z", "z"]
    assert len(decode(bench.cursor(entry).recent)) == 1
