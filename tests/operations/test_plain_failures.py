"""``CAPTURE_ALL_FAILURES``: failures of tasks that are not ours, with what would run them again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from billiard.exceptions import TimeLimitExceeded
from celery import Task, signals
from celery.exceptions import Ignore
from django.db import connections

from django_idempotent_tasks.messages.message import Message
from django_idempotent_tasks.models import FailedJob
from django_idempotent_tasks.states import Category, State
from tests.support.deliveries import ALIASES, APPS
from tests.support.failed import jobs
from tests.support.till import Counter, Till

if TYPE_CHECKING:
    from pytest_django import Settings

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

#: What Celery's own short form of arguments would cut.
LONG = {"text": "x" * 1021, "list": [{"n": n, "nul": "a\x00b"} for n in range(200)]}


class Busy(Exception):
    """Worth a retry."""


@pytest.fixture(autouse=True)
def _captures(alias: str, settings: Settings) -> None:
    settings.IDEMPOTENT_TASKS = {"DATABASE": alias, "CAPTURE_ALL_FAILURES": True}


def plain(till: Till, body: Callable[..., Any], **options: Any) -> Any:
    """A task that is not guarded."""
    values = {"base": Task, "bind": True, "shared": False, "name": till.new_name(), **options}
    decorate: Callable[[Any], Any] = till.task(**values)
    return decorate(body)


def fails(_self: Any, *_args: Any, **_kwargs: Any) -> None:
    raise ValueError("no")


def test_a_failure_of_a_plain_task_is_kept_with_its_arguments(till: Till, shop: Counter) -> None:
    task = plain(till, fails)
    till.deliver(task, LONG, 7, id="P", kwargs={"more": LONG})
    (job,) = jobs(shop)
    assert (job.task, job.task_id, job.attempt, job.digest) == (task.name, "P", 1, None)
    assert (job.error, job.state, job.category) == ("builtins.ValueError", State.FAILED, Category.RETRYABLE)
    assert "in fails" in job.traceback
    message = Message.decode(task.name, job.message or "")
    assert (list(message.args), dict(message.kwargs)) == ([LONG, 7], {"more": LONG})


def test_a_retry_of_a_plain_task_is_kept_and_so_is_its_last_failure(till: Till, shop: Counter) -> None:
    def busy(_self: Any) -> None:
        raise Busy

    task = plain(till, busy, autoretry_for=(Busy,), max_retries=1, default_retry_delay=0)
    till.deliver(task)
    till.deliver(task, retries=1)
    found = [(job.state, job.attempt, job.error.rpartition(".")[2]) for job in jobs(shop)]
    assert found == [(State.RETRY, 1, "Busy"), (State.FAILED, 2, "Busy")]


def test_a_retry_without_an_error_and_what_is_no_failure_leave_nothing(till: Till, shop: Counter) -> None:
    def asks(self: Any) -> None:
        raise self.retry(countdown=0)

    def ignores(_self: Any) -> None:
        raise Ignore

    def succeeds(_self: Any) -> int:
        return 1

    for body in (asks, ignores, succeeds):
        till.deliver(plain(till, body))
    assert jobs(shop) == []


def test_guarded_tasks_are_recorded_once_and_not_captured_as_well(till: Till, shop: Counter) -> None:
    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        raise ValueError("no")

    till.deliver(sell, 7)
    (job,) = jobs(shop)
    assert job.digest is not None


def test_nothing_is_captured_where_the_setting_is_off(till: Till, shop: Counter, settings: Settings) -> None:
    settings.IDEMPOTENT_TASKS = {"DATABASE": shop.alias}
    till.deliver(plain(till, fails))
    assert jobs(shop) == []


def test_a_hard_time_limit_is_kept_once_though_celery_reports_it_twice(till: Till, shop: Counter) -> None:
    task = plain(till, fails)
    for number in ("T1", "T1", "T2"):
        for _ in range(2):
            error = TimeLimitExceeded(3)
            signals.task_failure.send(
                sender=task,
                task_id=number,
                exception=error,
                args=[LONG],
                kwargs={},
                traceback=None,
                einfo=None,
            )
    found = jobs(shop)
    assert [(job.task_id, job.error.rpartition(".")[2]) for job in found] == [
        ("T1", "TimeLimitExceeded"),
        ("T1", "TimeLimitExceeded"),
        ("T2", "TimeLimitExceeded"),
    ]
    assert list(Message.decode(task.name, found[0].message or "").args) == [LONG]


def test_what_is_not_json_is_kept_without_its_call(till: Till, shop: Counter) -> None:
    till.deliver(plain(till, fails), object())
    (job,) = jobs(shop)
    assert job.message is None


def test_names_that_no_column_holds_are_cut(till: Till, shop: Counter) -> None:
    till.deliver(plain(till, fails, name="n" * 300), id="i" * 300)
    (job,) = jobs(shop)
    assert {job.task, job.task_id} == {"n" * 255, "i" * 255}


@pytest.mark.parametrize("sender", [None, "a name", object()], ids=["nobody", "a name", "an object"])
def test_a_report_without_a_task_does_no_harm(shop: Counter, sender: Any) -> None:
    signals.task_failure.send(sender=sender, task_id="X", exception=ValueError(), args=(), kwargs={})
    signals.task_retry.send(sender=sender, request=None, reason=None, einfo=None)
    assert jobs(shop) == []


@pytest.fixture
def lost_tables(shop: Counter) -> Iterator[None]:
    """The table of failed jobs cannot be written."""
    table = FailedJob._meta.db_table

    def rename(old: str, new: str) -> None:
        with connections[shop.alias].cursor() as cursor:
            cursor.execute(f"ALTER TABLE {old} RENAME TO {new}")

    rename(table, "idem_gone")
    yield
    rename("idem_gone", table)


@pytest.mark.usefixtures("lost_tables")
def test_a_ledger_that_takes_nothing_changes_no_outcome(till: Till, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, logger="django_idempotent_tasks"):
        end = till.deliver(plain(till, fails))
    assert str(end.error) == "no"
    assert any("could not be captured" in record.getMessage() for record in caplog.records)


@pytest.mark.usefixtures("lost_tables")
def test_a_guarded_failure_whose_record_has_no_table_keeps_its_state(till: Till, shop: Counter) -> None:
    if shop.alias == "sqlite":
        pytest.skip("SQLite calls it an operational error, as if it were locked: it is tried again")

    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        raise ValueError("no")

    till.deliver(sell, 7)
    assert shop.state is State.FAILED
