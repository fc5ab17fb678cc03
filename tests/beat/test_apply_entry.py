"""What is put around Celery's ``Scheduler.apply_entry`` sees each occurrence that this beat sends, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from celery import Task, signals
from celery.beat import Scheduler
from django.db import DatabaseError, connection, transaction

from django_idempotent_tasks import ConfigurationError, IdempotentTask
from django_idempotent_tasks.beat.asked import run_now
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.models import BeatCursor, IdempotencyKey
from tests.beat.bench import Bench
from tests.support.post import no_broker

pytestmark = pytest.mark.django_db(transaction=True)


def _run(at: int = 0) -> int:
    return at


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Check-ins as Sentry opens them, each with its number in a header of the entry."""
    names: list[str] = []
    numbers, original = count(1), Scheduler.apply_entry

    def apply_entry(*args: Any, **kwargs: Any) -> None:
        _scheduler, entry = args
        names.append(entry.name)
        headers = entry.options.pop("headers", {})
        headers["check-in"] = next(numbers)
        entry.options["headers"] = headers
        original(*args, **kwargs)

    monkeypatch.setattr(Scheduler, "apply_entry", apply_entry)
    return names


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "plain"])
def test_each_occurrence_has_a_check_in_of_its_own_which_the_sweeper_sends_too(
    bench: Bench, opened: list[str], is_ours: bool
) -> None:
    if is_ours:
        bench.app.task(base=IdempotentTask, key="at", name="shop.ours", shared=False)(_run)
    bench.every(10, task="shop.ours" if is_ours else "shop.report")
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=10)
    (first,) = bench.post.arrived()
    with no_broker(bench.post):
        bench.tick(beat, after=10)
    bench.post.sweep()
    again = {message["id"]: message["check-in"] for message in bench.post.arrived()}
    assert first["check-in"] == 1
    assert again.pop(first["id"], 1) == 1
    assert list(again.values()) == [2]
    assert opened == ["entry"] * 2


def test_a_beat_that_was_overtaken_and_a_cursor_that_was_set_back_open_no_check_in(
    bench: Bench, opened: list[str]
) -> None:
    bench.every(10)
    first, second = bench.beat(), bench.beat()
    bench.tick(first, second)
    bench.tick(first, second, after=10)
    assert opened == ["entry"], "the other one has sent it"
    BeatCursor.objects.update(last_due_at=None)
    third = bench.beat()
    bench.tick(third)
    assert opened == ["entry"]


def test_the_task_s_own_apply_async_is_run_in_beat(bench: Bench) -> None:
    class Base(Task):  # type: ignore[type-arg]
        abstract = True

        def apply_async(  # type: ignore[override]  # as projects write it
            self, args: Any = None, kwargs: Any = None, **options: Any
        ) -> Any:
            options["headers"] = {**(options.get("headers") or {}), "own": "yes"}
            return super().apply_async(args, kwargs, **options)

    bench.app.task(base=Base, name="shop.own", shared=False)(_run)
    bench.every(10, task="shop.own")
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=10)
    (message,) = bench.post.arrived()
    assert (message["own"], message["periodic_task_name"]) == ("yes", "entry")


def _fail_a_statement() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM no_such_table")


#: What a receiver may do to the connection that beat writes on.
BREAKAGES: list[Callable[[], None]] = [
    _fail_a_statement,
    connection.close,
    lambda: transaction.set_rollback(True),
]
each_breakage = pytest.mark.parametrize("breaks", BREAKAGES, ids=["statement", "close", "rollback"])


@contextmanager
def heard_by(breaks: Callable[[], None], task: str) -> Iterator[None]:
    """A receiver of the publish signal that breaks the open transaction for one task's messages."""

    def receive(sender: str, **_rest: Any) -> None:
        if sender == task:
            breaks()

    signals.before_task_publish.connect(receive)
    yield
    signals.before_task_publish.disconnect(receive)


@each_breakage
def test_a_receiver_that_breaks_beat_s_transaction_holds_no_entry_up(
    bench: Bench, opened: list[str], breaks: Callable[[], None]
) -> None:
    bench.app.task(name="shop.bad", shared=False)(_run)
    bench.every(10, name="good")
    bench.every(10, name="bad", task="shop.bad")
    beat = bench.beat()
    bench.tick(beat)
    with heard_by(breaks, "shop.bad"):
        bench.tick(beat, after=10)
    sent = {message["task"]: message.get("check-in") for message in bench.post.arrived()}
    assert sorted(sent) == ["shop.bad", "shop.report"]
    assert sent["shop.report"] is not None
    assert sorted(opened) == ["bad", "good"], "what had its stamps keeps them"


@each_breakage
def test_who_asks_for_a_run_then_is_told_that_it_cannot_be_sent(
    bench: Bench, breaks: Callable[[], None]
) -> None:
    model = bench.every(10)
    with heard_by(breaks, "shop.report"), pytest.raises((ConfigurationError, DatabaseError)) as told:
        run_now(model, by="ann", app=bench.app, store=get_store())
    assert isinstance(told.value, ConfigurationError)
    assert not IdempotencyKey.objects.exists()
