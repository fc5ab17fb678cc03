"""Cursors of deleted periodic tasks go, also where no beat of ours runs any more; no other cursor does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings as django_settings
from django.db import connections
from django.test.utils import override_settings
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from django_idempotent_tasks.beat.clock import stored
from django_idempotent_tasks.beat.cursors import held_alone
from django_idempotent_tasks.ledger.moments import database_now, exact
from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import BeatCursor
from django_idempotent_tasks.sweeper import prune as pruning
from django_idempotent_tasks.sweeper.prune import CURSOR_KEEP, gone_cursors, prune_bite
from django_idempotent_tasks.sweeper.thread import Sweeper
from tests.support.keys import Keys, facts, idem
from tests.support.ledger.session import Session, wait_until_blocked
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from pytest_django import Settings

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "sqlite"])

OLD = CURSOR_KEEP + 10


class In:
    """Keeps the periodic tasks in this database."""

    def __init__(self, alias: str) -> None:
        self.alias = alias

    def db_for_read(self, model: type, **_hints: Any) -> str | None:
        return self.alias if model.__module__.startswith("django_celery_beat") else None

    db_for_write = db_for_read


class Timetable:
    """Periodic tasks and their cursors in one database, without any beat."""

    def __init__(self, alias: str) -> None:
        self.alias = alias

    @property
    def store(self) -> LedgerStore:
        return get_store(self.alias)

    @property
    def cursors(self) -> Any:
        return BeatCursor.objects.using(self.alias)

    def entry(self, name: str, **fields: Any) -> PeriodicTask:
        """An entry, with the cursor that a beat of ours wrote for it."""
        schedules = IntervalSchedule.objects.using(self.alias)
        interval, _ = schedules.get_or_create(every=10, period="seconds")
        tasks = PeriodicTask.objects.using(self.alias)
        entry = tasks.create(name=name, task="shop.report", interval=interval, **fields)
        self.touch(entry.pk)
        return entry

    def touch(self, pk: int) -> None:
        """Write an entry's cursor now, as beat does."""
        now = stored(exact(database_now(self.store)))
        self.cursors.update_or_create(pk=pk, defaults={"schedule": "10 s", "updated_at": now})

    def deleted(self, *names: str) -> list[int]:
        """Entries that were deleted after beat wrote their cursors; their numbers."""
        entries = [self.entry(name) for name in names]
        numbers = [entry.pk for entry in entries]
        PeriodicTask.objects.using(self.alias).filter(pk__in=numbers).delete()
        return numbers

    def left(self) -> list[int]:
        """The numbers of the cursors that are left."""
        return sorted(self.cursors.values_list("pk", flat=True))


@pytest.fixture(params=["default", "sqlite"])
def timetable(request: pytest.FixtureRequest, settings: Settings) -> Timetable:
    """A ledger and the periodic tasks in one database."""
    settings.IDEMPOTENT_TASKS = {"DATABASE": request.param}
    settings.DATABASE_ROUTERS = [In(request.param)]
    return Timetable(request.param)


@pytest.fixture
def postgresql() -> Timetable:
    """The same, for what only PostgreSQL has."""
    if connections["default"].vendor != "postgresql":
        pytest.skip("needs PostgreSQL as the default database")
    return Timetable("default")


def test_the_sweeper_deletes_the_cursor_of_a_deleted_entry_after_a_day_and_no_other(
    timetable: Timetable, bench: Any
) -> None:
    timetable.deleted("gone")
    kept = [timetable.entry("enabled").pk, timetable.entry("disabled", enabled=False).pk]
    with shifted(CURSOR_KEEP - 100):
        Sweeper(bench.app)._tidy()
        assert len(timetable.left()) == 3
        young = timetable.deleted("a moment ago")
    with shifted(OLD):
        Sweeper(bench.app)._tidy()
    assert timetable.left() == [*kept, *young]


def test_a_sweeper_looks_for_them_once_a_minute_and_then_deletes_all(
    timetable: Timetable, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "BITE", 2)
    timetable.deleted(*"abcde")
    sweeper = Sweeper(bench.app)
    with shifted(OLD):
        sweeper._tidy()
        assert timetable.left() == []
        late = timetable.deleted("late")
    with shifted(2 * OLD):
        sweeper._tidy()
        assert timetable.left() == late
        sweeper._tidying._look_at = 0.0
        sweeper._tidy()
    assert timetable.left() == []


def test_a_bite_deletes_no_more_than_it_says(timetable: Timetable) -> None:
    timetable.deleted(*"abcde")
    kept = timetable.entry("kept").pk
    with shifted(OLD):
        assert [prune_bite(timetable.store, bite=2)["cursors"] for _ in range(4)] == [2, 2, 1, 0]
    assert timetable.left() == [kept]


def test_the_dry_run_counts_what_the_real_one_deletes(timetable: Timetable) -> None:
    timetable.deleted("a", "b")
    timetable.entry("kept")
    keys = Keys(timetable.alias)
    with shifted(OLD):
        assert facts(keys, "prune")[1]["past_their_time"]["cursors"] == {"count": 2, "at_least": False}
        assert len(timetable.left()) == 3
        assert facts(keys, "prune", "--yes")[1]["deleted"]["cursors"] == 2
        assert facts(keys, "prune")[1]["past_their_time"]["cursors"]["count"] == 0


def test_a_cursor_that_is_written_after_the_look_is_not_deleted(timetable: Timetable) -> None:
    again, gone = timetable.deleted("again", "gone")
    with shifted(OLD):
        found = gone_cursors(timetable.store, bite=9)
        assert found == [again, gone]
        timetable.touch(again)  # of a new entry, which was given the number of an old one
        assert timetable.store.prune_cursors(found, keep=CURSOR_KEEP) == 1
    assert timetable.left() == [again]


def test_of_entries_in_another_database_nothing_is_known_and_no_cursor_deleted(
    timetable: Timetable, settings: Settings
) -> None:
    numbers = timetable.deleted("elsewhere")
    settings.DATABASE_ROUTERS = [In("default" if timetable.alias == "sqlite" else "sqlite")]
    with shifted(OLD):
        assert prune_bite(timetable.store)["cursors"] == 0
    assert timetable.left() == numbers


def test_without_django_celery_beat_no_cursor_is_deleted(timetable: Timetable) -> None:
    numbers = timetable.deleted("gone")
    without = [app for app in django_settings.INSTALLED_APPS if app != "django_celery_beat"]
    with override_settings(INSTALLED_APPS=without), shifted(OLD):
        assert prune_bite(timetable.store)["cursors"] == 0
        assert idem("prune", "--database", timetable.alias)[0] == 0
    assert timetable.left() == numbers


@pytest.fixture
def session(postgresql: Timetable) -> Iterator[Session]:
    with closing(Session(postgresql.alias)) as session:
        yield session


def test_an_entry_that_is_being_made_with_the_number_of_a_deleted_one_keeps_its_cursor(
    postgresql: Timetable, session: Session
) -> None:
    (number,) = postgresql.deleted("again")
    interval = IntervalSchedule.objects.get()
    with shifted(OLD), closing(Session(postgresql.alias)) as sweeper:
        session.begin()
        session.do(lambda _: PeriodicTask.objects.create(pk=number, name="x", task="t", interval=interval))
        session.do(lambda store: held_alone(number, store))  # as "run now" does
        pid = sweeper.pid
        pruned = sweeper.start(lambda store: prune_bite(store)["cursors"])
        wait_until_blocked(pid, by=session.pid)
        session.commit()
        assert pruned.result(PATIENCE) == 0
    assert postgresql.left() == [number]


def test_a_search_path_to_a_tenants_entries_deletes_no_cursor(postgresql: Timetable) -> None:
    kept = postgresql.entry("of the public schema").pk
    table = PeriodicTask._meta.db_table
    with connections["default"].cursor() as cursor, shifted(OLD):
        cursor.execute(f"CREATE SCHEMA acme CREATE TABLE {table} (id integer)")
        try:
            cursor.execute("SET search_path = acme, public")
            assert gone_cursors(postgresql.store, bite=9) == []
            assert prune_bite(postgresql.store)["cursors"] == 0
        finally:
            cursor.execute("RESET search_path")
            cursor.execute("DROP SCHEMA acme CASCADE")
    assert postgresql.left() == [kept]


def test_a_cursor_that_is_older_than_a_day_is_kept_for_as_long_as_its_entry(timetable: Timetable) -> None:
    entry = timetable.entry("yearly")
    timetable.cursors.update(next_due_at=None, updated_at=entry.date_changed - timedelta(days=400))
    assert prune_bite(timetable.store)["cursors"] == 0
    assert timetable.left() == [entry.pk]
