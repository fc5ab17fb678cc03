"""Durations by task: hours that the sweeper has counted, and the present one, as people read them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger.moments import database_now
from django_idempotent_tasks.ledger.values import Call, Claim, Times
from django_idempotent_tasks.models import BOUNDS
from django_idempotent_tasks.operations import durations
from django_idempotent_tasks.operations.durations import SPANS, TaskLine, by_task, quantile
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.hours import count_hours
from tests.support.keys import HOSTILE, Keys, facts, idem

ALIASES = [alias for alias in ("default", "sqlite", "mysql") if alias in settings.DATABASES]
pytestmark = pytest.mark.django_db(databases=ALIASES)
every = pytest.mark.parametrize("keys", [Keys(alias) for alias in ALIASES], ids=ALIASES)


def ran(keys: Keys, hours_ago: float, seconds: float, task: str = "shop.charge", **columns: Any) -> Claim:
    """A leased run that took so long, of a key made so many hours ago."""
    claim = keys.completed(keys.claimed(Call(Identity(uuid4(), None, "7", None), task, str(uuid4()), None)))
    made = database_now(keys.store()).replace(microsecond=0) - timedelta(hours=hours_ago)
    times = {"created_at": made, "started_at": made, "finished_at": made + timedelta(seconds=seconds)}
    keys.in_columns(claim, **times, **columns)
    return claim


def swept(keys: Keys) -> None:
    while count_hours(keys.store()):
        pass


def lines(keys: Keys, over: str) -> dict[str, TaskLine]:
    return {line.task: line for line in by_task(keys.store(), SPANS[over])}


@every
def test_a_day_is_the_counted_hours_and_the_present_one_each_key_once(keys: Keys) -> None:
    ran(keys, 30, 500)
    for hours_ago in (20, 5, 2, 0):
        ran(keys, hours_ago, 2, duplicates=1)
    ran(keys, 5, 20, state=State.FAILED, sends=0)
    ran(keys, 3, 0.02, task="shop.refund")
    swept(keys)
    found = lines(keys, "day")
    assert [*found] == ["shop.charge", "shop.refund"]
    line = found["shop.charge"]
    assert (line.runs.number, line.failed.number, line.duplicates.number) == (5, 1, 4)
    assert (line.run.count, line.run.mean, line.run.longest) == (5, 28 / 5, 20)
    assert line.run.p50 is not None
    assert line.run.p95 is not None
    assert 1 < line.run.p50 < 3
    assert 10 < line.run.p95 <= 20
    assert line.last_failure_at is not None


@every
def test_the_last_hour_is_read_from_the_keys_whether_counted_or_not(keys: Keys) -> None:
    ran(keys, 0.9, 2)
    ran(keys, 1.1, 2)
    for _ in range(2):
        assert lines(keys, "hour")["shop.charge"].run.count == 1
        swept(keys)


@every
def test_without_a_sweeper_the_newest_keys_are_read_and_counts_are_bounds(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hours_ago in (3, 2, 1):
        ran(keys, hours_ago, hours_ago)
    assert lines(keys, "day")["shop.charge"].run.longest == 3
    monkeypatch.setattr(durations, "CAP", 1)
    line = lines(keys, "day")["shop.charge"]
    assert (str(line.runs), line.run.longest) == ("at least 2", 2)


@every
def test_a_week_is_read_by_few_statements_however_many_tasks_there_are(keys: Keys) -> None:
    for number in range(9):
        ran(keys, 2, 1, task=f"shop.task_{number}")
    swept(keys)
    with CaptureQueriesContext(connections[keys.alias]) as seen:
        assert len(lines(keys, "week")) == 9
    assert len(seen) == 5


@pytest.mark.parametrize(
    ("buckets", "part", "expected"),
    [
        ({}, 0.5, None),
        ({1.0: 10}, 0.5, 0.65),
        ({0.01: 90, 3.0: 10}, 0.5, 0.01 * 50 / 90),
        ({0.01: 90, 3.0: 10}, 0.95, 2.0),
        ({None: 1}, 0.95, 3600 + 0.95 * 400),
    ],
)
def test_a_quantile_is_estimated_within_its_bucket(
    buckets: dict[float | None, int], part: float, expected: float | None
) -> None:
    counts = tuple(buckets.get(bound, 0) for bound in (*BOUNDS, None))
    assert quantile(Times(sum(counts), 1.0, 4000.0, counts), part) == (
        None if expected is None else pytest.approx(expected)
    )


def test_no_quantile_is_longer_than_the_longest() -> None:
    counts = tuple(int(bound == 3.0) for bound in (*BOUNDS, None))
    assert quantile(Times(1, 1.2, 1.2, counts), 0.95) == pytest.approx(1.19)


@every
def test_idem_tasks_prints_the_table_and_says_the_same_as_json(keys: Keys) -> None:
    ran(keys, 0, 2)
    ran(keys, 0, 2, task=HOSTILE, state=State.FAILED, sends=0)
    code, text = idem("tasks", "--over", "hour", "--database", keys.alias)
    assert code == 0
    assert text.splitlines()[0].split()[:4] == ["task", "runs", "failed", "duplicates"]
    assert "\x1b" not in text
    assert "INJECTED" not in text.splitlines()
    seen = facts(keys, "tasks")[1]
    assert seen["over"] == "day"
    line = next(each for each in seen["tasks"] if each["task"] == "shop.charge")
    assert (line["runs"], line["run_seconds"]["max"]) == ({"count": 1, "at_least": False}, 2.0)
    assert line["wait_seconds"] == {"count": 0, "p50": None, "p95": None, "mean": None, "max": None}


@every
def test_idem_tasks_says_so_when_there_is_nothing(keys: Keys) -> None:
    assert idem("tasks", "--database", keys.alias) == (0, "No key was made in the last day.\n")
