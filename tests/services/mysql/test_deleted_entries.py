"""Cursors of deleted periodic tasks on MariaDB or MySQL, where MYSQL_URL names one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("django_celery_beat")

from django_celery_beat.models import PeriodicTask

from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import BeatCursor
from django_idempotent_tasks.sweeper.prune import prune_bite
from tests.beat.test_deleted_entries import (
    OLD,
    In,
    Timetable,
    test_a_bite_deletes_no_more_than_it_says,
    test_a_cursor_that_is_written_after_the_look_is_not_deleted,
    test_the_dry_run_counts_what_the_real_one_deletes,
)
from tests.services.mysql.server import ALIAS
from tests.support.ledger.session import Session

if TYPE_CHECKING:
    from pytest_django import Settings

__all__ = [
    "test_a_bite_deletes_no_more_than_it_says",
    "test_a_cursor_that_is_written_after_the_look_is_not_deleted",
    "test_the_dry_run_counts_what_the_real_one_deletes",
]

pytestmark = pytest.mark.django_db(
    transaction=True,
    databases=["default", ALIAS],
    available_apps=["django_idempotent_tasks", "django_celery_beat"],
)


@pytest.fixture
def timetable(settings: Settings) -> Iterator[Timetable]:
    """A ledger and the periodic tasks in one database."""
    settings.IDEMPOTENT_TASKS = {"DATABASE": ALIAS}
    settings.DATABASE_ROUTERS = [In(ALIAS)]
    yield Timetable(ALIAS)
    PeriodicTask.objects.using(ALIAS).all().delete()  # before the schedules that they refer to


def test_it_waits_for_nobody_who_edits_an_entry_or_moves_a_cursor(timetable: Timetable) -> None:
    moved, _gone = timetable.deleted("moved", "gone")
    kept = timetable.entry("kept").pk
    with shifted(OLD), closing(Session(ALIAS)) as beat:
        beat.begin()
        beat.do(lambda _: BeatCursor.objects.using(ALIAS).filter(pk__in=[moved, kept]).update(passed_over=1))
        beat.do(lambda _: PeriodicTask.objects.using(ALIAS).filter(pk=kept).update(name="edited"))
        assert prune_bite(timetable.store)["cursors"] == 1
        beat.commit()
    assert timetable.left() == [moved, kept]
