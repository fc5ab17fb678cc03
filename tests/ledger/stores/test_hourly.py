"""Hourly counts: an hour is counted once it is over, once more an hour later, and never twice."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from celery import current_app
from django.conf import settings

from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger.moments import database_now
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Call, Claim
from django_idempotent_tasks.models import COUNTED, HourlyCount
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.hours import BITE, HOUR, count_hours
from django_idempotent_tasks.sweeper.prune import prune_bite
from django_idempotent_tasks.sweeper.thread import Sweeper
from tests.support.keys import Keys
from tests.support.ledger.crowd import fill
from tests.support.ledger.statements import postgresql_plan

ALIASES = [alias for alias in ("default", "sqlite", "mysql") if alias in settings.DATABASES]
pytestmark = [pytest.mark.django_db(databases=ALIASES), pytest.mark.usefixtures("early_in_a_minute")]
every = pytest.mark.parametrize("keys", [Keys(alias) for alias in ALIASES], ids=ALIASES)


def hour_of(keys: Keys, back: int) -> datetime:
    """The beginning of an hour, so many full ones ago."""
    return database_now(keys.store()).replace(minute=0, second=0, microsecond=0) - back * HOUR


def made(keys: Keys, hour: datetime, task: str = "shop.charge", **columns: int) -> Claim:
    """A key that was made in an hour."""
    claim = keys.claimed(Call(Identity(uuid4(), None, "7", None), task, str(uuid4()), None))
    keys.in_columns(claim, created_at=hour + timedelta(minutes=59), **columns)
    return claim


def counted(keys: Keys, hour: datetime) -> dict[str, tuple[int, ...]]:
    """What is counted of an hour, by task."""
    rows = HourlyCount.objects.using(keys.alias).filter(hour=hour)
    return {row.task: (row.created, row.succeeded, row.failed, row.duplicates, row.crashes) for row in rows}


@every
def test_an_hour_is_counted_by_task_once_it_is_over(keys: Keys) -> None:
    last, present = hour_of(keys, 1), hour_of(keys, 0)
    made(keys, last, state=State.SUCCEEDED, duplicates=3)
    made(keys, last, state=State.FAILED, crashes=2)
    made(keys, last, task="shop.refund", state=State.REVIEW)
    made(keys, present)
    HourlyCount.objects.using(keys.alias).create(
        hour=last - HOUR, task=COUNTED, created=0, succeeded=0, failed=0, duplicates=0, crashes=0
    )
    assert count_hours(keys.store()) == 2
    assert counted(keys, last) == {
        COUNTED: (0, 0, 0, 0, 0),
        "shop.charge": (2, 1, 1, 3, 2),
        "shop.refund": (1, 0, 1, 0, 0),
    }
    assert counted(keys, present) == {}
    assert count_hours(keys.store()) == 0


@every
def test_what_ends_late_is_in_the_second_count(keys: Keys) -> None:
    last = hour_of(keys, 1)
    claim = made(keys, last)
    while count_hours(keys.store()):
        pass
    assert counted(keys, last)["shop.charge"] == (1, 0, 0, 0, 0)
    keys.in_columns(claim, state=State.SUCCEEDED, duplicates=2)
    assert count_hours(keys.store()) == 0
    with shifted(3600):
        assert count_hours(keys.store()) == 2
        assert count_hours(keys.store()) == 0
    assert counted(keys, last)["shop.charge"] == (1, 1, 0, 2, 0)


@every
def test_hours_in_which_nobody_swept_are_counted_a_few_at_a_time(keys: Keys) -> None:
    made(keys, hour_of(keys, 20))
    calls = 0
    while done := count_hours(keys.store()):
        calls, last = calls + 1, done
        assert done <= BITE
    assert (calls > 1, last <= BITE) == (True, True)
    assert counted(keys, hour_of(keys, 20))["shop.charge"][0] == 1
    assert HourlyCount.objects.using(keys.alias).filter(task=COUNTED).count() == 25


@every
def test_counts_are_kept_for_ninety_days(keys: Keys) -> None:
    while count_hours(keys.store()):
        pass
    with shifted(88 * 86400):
        assert prune_bite(keys.store())["hourly"] == 0
    with shifted(92 * 86400):
        assert prune_bite(keys.store())["hourly"] == 25


@pytest.mark.django_db(transaction=True)
def test_a_sweep_counts_hours_by_itself() -> None:
    made(Keys("default"), hour_of(Keys("default"), 1))
    sweeper = Sweeper(current_app)
    for _ in range(9):
        sweeper._count_at = 0.0
        sweeper._sweep()
    assert counted(Keys("default"), hour_of(Keys("default"), 1))["shop.charge"][0] == 1


@pytest.mark.postgresql
def test_an_hour_is_read_by_the_index_of_its_time() -> None:
    fill("default")
    keys = Keys("default")
    last = hour_of(keys, 1)
    plan = postgresql_plan(lambda store: store.count_hour(last, last + HOUR, marker=COUNTED))
    assert {access.node for access in plan if "idempotencykey" in access.table} <= {
        "Index Scan",
        "Bitmap Heap Scan",
    }
