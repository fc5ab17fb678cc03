"""Standbys, databases that go away, clocks that step, entries that cannot be sent: no storm, no silence."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from celery.beat import Service
from django.db import connection
from django_celery_beat.models import CrontabSchedule, PeriodicTask

from django_idempotent_tasks import schedulers
from django_idempotent_tasks.exceptions import ConfigurationError
from tests.beat.bench import EPOCH, Bench

WHERE = "django_idempotent_tasks.schedulers:SingleInstanceDatabaseScheduler"

BAD: dict[str, dict[str, Any]] = {
    "arguments that are not JSON": {"args": "{"},
    "headers that are not JSON": {"headers": "{"},
    "a word that is none": {"headers": '{"idempotent_beat": {"misfire": "sometimes"}}'},
    "a name that is none": {"headers": '{"idempotent_beat": {"overlaps": "skip"}}'},
    "no schedule": {"interval": None},
    "more than MAX_PAYLOAD": {"args": f'["{"x" * 2_000_000}"]'},
    "a task name that is none": {"task": ""},
}


@pytest.mark.parametrize("wrong", BAD)
def test_an_entry_that_cannot_be_sent_stops_no_other(bench: Bench, wrong: str, caplog: Any) -> None:
    bad = bench.every(10, "bad")
    bench.every(10, "good")
    PeriodicTask.objects.filter(pk=bad.pk).update(**BAD[wrong])
    beat = bench.beat()
    bench.tick(beat)
    for _ in range(3):
        bench.tick(beat, after=10)
    assert bench.names().count("good") == 3
    assert "bad" in caplog.text or wrong == "a task name that is none"


def test_an_entry_that_the_database_refuses_stops_no_other_and_is_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.every(10, "bad", args="[1]")
    bench.every(10, "good")
    from django_idempotent_tasks.beat import dispatch  # noqa: PLC0415

    reserve = dispatch._reserve

    def refuse(work: Any, *rest: Any) -> None:
        reserve(work, *rest)
        if work.entry.name == "bad":
            with connection.cursor() as cursor:
                cursor.execute("SELECT no_such_column FROM django_celery_beat_periodictask")

    beat = bench.beat()
    bench.tick(beat)
    with monkeypatch.context() as patch:
        patch.setattr(dispatch, "_reserve", refuse)
        bench.tick(beat, after=10)
        bench.tick(beat, after=10)
    assert bench.names() == ["good", "good"]
    bench.tick(beat, after=20)
    assert bench.names() == [*["bad"] * 4, *["good"] * 2]


def test_a_clock_that_is_put_back_makes_neither_silence_nor_a_second_sending(bench: Bench) -> None:
    bench.every(600, "interval")
    bench.cron("30", "crontab")
    beat = bench.beat()
    bench.tick(beat)
    for _ in range(4):
        bench.tick(beat, after=600)
    assert bench.names().count("crontab") == 1
    bench.now -= timedelta(hours=1, seconds=7)
    bench.tick(beat)
    for _ in range(6):
        bench.tick(beat, after=600)
    assert bench.names() == ["interval"] * 6, "the crontab's time has been sent"
    for _ in range(6):
        bench.tick(beat, after=600)
    assert bench.names().count("crontab") == 1


def test_a_clock_that_leaps_is_downtime(bench: Bench) -> None:
    bench.every(1)
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=7 * 86_400)
    assert bench.sent() == [7 * 86_400]


def test_entries_of_the_settings_are_set_up_by_the_leader(bench: Bench) -> None:
    bench.app.conf.result_expires = 3600
    bench.app.conf.beat_schedule = {
        "often": {
            "task": "shop.report",
            "schedule": 10.0,
            "args": (1,),
            "options": {"queue": bench.post.queue},
        }
    }
    leader, standby = bench.beat(), bench.beat()
    bench.tick(leader)
    names = {*PeriodicTask.objects.values_list("name", flat=True)}
    assert names == {"often", "celery.backend_cleanup"}
    PeriodicTask.objects.all().delete()
    bench.tick(standby, leads=False)
    assert not PeriodicTask.objects.exists()
    bench.tick(standby)
    bench.tick(standby, after=10)
    assert bench.sent() == [10]


def test_the_banner_of_celery_asks_the_database_nothing(bench: Bench, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        service = Service(bench.app, scheduler_cls=WHERE)  # type: ignore[arg-type]
        scheduler = service.get_scheduler(lazy=True)
        scheduler.close()
    assert isinstance(scheduler, schedulers.SingleInstanceDatabaseScheduler)
    assert scheduler.info == ""


def test_without_time_zones_in_the_database_the_times_are_the_same(bench: Bench, settings: Any) -> None:
    settings.TIME_ZONE = "America/New_York"
    settings.USE_TZ = False
    crontab = CrontabSchedule.objects.create(minute="*/15", hour="*", timezone="America/New_York")
    bench.now = EPOCH.replace(month=11, day=1, hour=4, minute=50)  # the hour from 05:00 UTC comes twice there
    bench.entry("quarters", crontab=crontab)
    beat = bench.beat()
    bench.tick(beat)
    for _ in range(14):
        bench.read_again(beat)
        bench.tick(beat, after=600)
    begin = EPOCH.replace(month=11, day=1, hour=5, minute=0)
    expected = [begin + timedelta(minutes=m) for m in (0, 15, 30, 45, 120)]
    assert bench.sent() == [(moment - EPOCH).total_seconds() for moment in expected]


def test_sensitive_arguments_are_not_written_into_the_ledger_by_beat(bench: Bench, caplog: Any) -> None:
    bench.post.task(name="shop.secret", reserve=False, key="order_id", sensitive=("amount",))
    bench.every(10, task="shop.secret", args="[1]")
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=10)
    assert bench.sent() == []
    assert "Pass an id" in caplog.text


def test_our_beat_says_what_it_needs_where_it_cannot_run(settings: Any) -> None:

    from django_idempotent_tasks.beat import checks  # noqa: PLC0415

    settings.DATABASE_ROUTERS = ["tests.beat.test_trouble.Elsewhere"]
    (problem,) = checks.check_beat()
    assert (problem.id, "one transaction" in problem.msg) == ("django_idempotent_tasks.E004", True)
    settings.DATABASE_ROUTERS = []
    assert checks.check_beat() == []
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_celery_beat"]
    assert checks.check_beat() == []
    assert "its extra [beat]" in str(checks.beat_problem())
    assert issubclass(ConfigurationError, Exception)


class Elsewhere:
    """Periodic tasks in a database of their own."""

    def db_for_write(self, model: Any, **_: Any) -> str | None:
        return "sqlite" if model._meta.app_label == "django_celery_beat" else None


@pytest.mark.parametrize("is_aware", [True, False])
def test_zones_that_contradict_one_another_make_no_storm(
    bench: Bench, settings: Any, monkeypatch: pytest.MonkeyPatch, is_aware: bool
) -> None:
    settings.USE_TZ, settings.TIME_ZONE = False, "Pacific/Kiritimati"  # UTC+14, as the host
    settings.DJANGO_CELERY_BEAT_TZ_AWARE = is_aware
    bench.app.conf.update(enable_utc=False, timezone="Asia/Kolkata")
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Pacific/Kiritimati")
        time.tzset()
        crontab = CrontabSchedule.objects.create(minute="*", timezone="Pacific/Honolulu")
        bench.entry("minutely", crontab=crontab)
        bench.every(30, "interval")
        beats = [bench.beat(), bench.beat()]
        bench.tick(*beats)
        for _ in range(72):
            bench.tick(*beats, after=2.5)
    time.tzset()
    assert bench.sent() == sorted([60, 120, 180, *range(30, 181, 30)])


OWN = {"headers": {"idempotent_beat": {"overlap": "skip"}}}
IN_VAIN: dict[str, dict[str, Any]] = {
    "in the entry": {"overlap": "skip"},
    "misspelt in the entry": {"overlaps": "skip"},
    "in its options": {"options": {"overlap": "skip"}},
    "in its headers": {"options": {"headers": {"overlap": "skip"}}},
    "the header in the entry": {"idempotent_beat": {"overlap": "skip"}},
    "misspelt in the header": {"options": {"headers": {"idempotent_beat": {"overlapp": "skip"}}}},
}


@pytest.mark.parametrize("words", [*IN_VAIN.values(), {"options": OWN}], ids=[*IN_VAIN, "where it counts"])
def test_a_word_to_beat_where_nobody_reads_it_is_told_of(
    bench: Bench, words: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    from django_idempotent_tasks.beat import checks  # noqa: PLC0415

    bench.app.conf.beat_schedule = {"nightly": {"task": "shop.report", "schedule": 10.0, **words}}
    monkeypatch.setattr(checks, "current_app", bench.app)
    found = [(each.id, "'nightly'" in each.msg) for each in checks.check_schedule()]
    bench.tick(beat := bench.beat())
    if words == {"options": OWN}:
        assert (found, caplog.text) == ([], "")
        assert beat.schedule["nightly"].skips_overlap
    else:
        assert found == [("django_idempotent_tasks.W008", True)]
        assert "Entry 'nightly' of beat_schedule: " in caplog.text
        assert "idempotent_beat" in caplog.text
        assert PeriodicTask.objects.filter(name="nightly", enabled=True).exists()
