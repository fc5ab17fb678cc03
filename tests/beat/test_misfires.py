"""After downtime: one, all or none of what was missed; a failover misses nothing."""

from __future__ import annotations

from typing import Any

import pytest

from django_idempotent_tasks.beat import misfire
from django_idempotent_tasks.states import State
from tests.beat.bench import EPOCH, Bench

OWN = '{{"idempotent_beat": {{"misfire": "{}"}}}}'


def down(bench: Bench, seconds: float) -> None:
    """A beat begins, is away, and one comes back."""
    bench.tick(bench.beat())
    bench.tick(bench.beat(), after=seconds)


@pytest.mark.parametrize("policy", ["coalesce", "all", "skip"])
def test_a_failover_misses_nothing_whatever_the_policy(bench: Bench, policy: str) -> None:
    bench.every(1, headers=OWN.format(policy))
    down(bench, 25)
    assert bench.sent() == [*range(1, 26)]


@pytest.mark.parametrize(
    ("policy", "sent"), [("coalesce", [3000]), ("all", [600, 1200, 1800, 2400, 3000]), ("skip", [])]
)
def test_after_downtime_the_policy_decides(bench: Bench, policy: str, sent: list[int], caplog: Any) -> None:
    bench.every(600, headers=OWN.format(policy))
    down(bench, 3100)
    assert bench.sent() == sent
    assert ("missed occurrence(s) (misfire" in caplog.text) is (policy != "all")
    bench.tick(bench.beat(), after=500)
    assert bench.sent() == [3600]


def test_the_setting_is_the_policy_of_entries_without_one(bench: Bench, settings: Any) -> None:
    settings.IDEMPOTENT_TASKS = {"MISFIRE": "skip"}
    bench.cron("0")
    down(bench, 9000)
    assert bench.sent() == []


def test_the_latest_of_what_was_missed_is_sent_when_it_is_hardly_late_and_missed_are_skipped(
    bench: Bench,
) -> None:
    bench.cron("0", headers=OWN.format("skip"))
    down(bench, 7210)
    assert bench.sent() == [7200]


@pytest.mark.parametrize("days", [1, 30])
def test_a_long_past_is_walked_through_and_its_latest_time_sent(
    bench: Bench, days: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(misfire, "LOOKS", 500)
    bench.cron("*/30")
    bench.every(1, "interval")
    bench.tick(bench.beat())
    bench.now += (bench.now - EPOCH.replace(day=4)) * days
    beat = bench.beat()
    for _ in range(10):
        bench.tick(beat)
    assert bench.sent() == [days * 86_400] * 2


def test_exactly_as_many_as_one_look_computes_are_not_too_many(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(misfire, "LOOKS", 5)
    bench.cron("*")
    down(bench, 300)
    assert bench.sent() == [300]


def test_catching_up_does_not_hold_up_what_is_due_now(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(misfire, "BITE", 10)
    monkeypatch.setattr("django_idempotent_tasks.schedulers.BITE", 1)
    monkeypatch.setattr("django_idempotent_tasks.schedulers.LONGEST_TICK", 0)
    bench.every(1, "many", headers=OWN.format("all"))
    bench.cron("10", "one")
    bench.tick(bench.beat())
    bench.now = EPOCH.replace(minute=10)
    beat = bench.beat()
    for _ in range(3):
        assert bench.tick(beat) == 0
    assert bench.names().count("one") == 1
    while bench.tick(beat) == 0:
        pass
    assert bench.names() == ["many"] * (600 - 20)


def test_many_that_catch_up_together_do_so_in_small_transactions(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_idempotent_tasks.schedulers.MOST", 15)
    for number in range(4):
        bench.every(10, f"{number}", headers=OWN.format("all"))
    down(bench, 100)
    assert bench.names() == sorted([*"0123"] * 10)


def test_an_idempotent_task_is_not_sent_while_its_last_occurrence_is_unfinished_where_that_was_asked(
    bench: Bench,
) -> None:
    task = bench.post.task(reserve=False, name="shop.slow", key="order_id")
    headers = '{"idempotent_beat": {"overlap": "skip"}}'
    entry = bench.every(10, task="shop.slow", args="[1]", headers=headers)
    beat = bench.beat()
    bench.tick(beat)
    for _ in range(5):
        bench.tick(beat, after=10)
    assert bench.key(entry).state == State.PENDING, "one waits, however busy the workers are"
    bench.post.work(task)
    bench.tick(beat, after=10)
    assert bench.sent() == [60]


def test_crontabs_deadline_for_late_starts_is_kept(bench: Bench) -> None:
    bench.app.conf.beat_cron_starting_deadline = 600
    bench.cron("0")
    down(bench, 3600 + 700)
    assert bench.sent() == []
    bench.tick(bench.beat(), after=3600 - 700 + 100)
    assert bench.sent() == [7200]
