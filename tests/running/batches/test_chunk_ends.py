"""The end of a chunk on PostgreSQL goes out with the question whether its batch is to end."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import connections

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.session import Session
from django_idempotent_tasks.models import Batch, BatchState
from django_idempotent_tasks.running import altered
from tests.running.delivery.heard import heard_by_postgresql
from tests.support.batches import APPS, Desk, done, outcomes, texts
from tests.support.deliveries import ALIASES
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
]

CHUNKS = "django_idempotent_tasks_batchchunk"


def do_and_lock(other: Any, task: Any, records: list[Any]) -> None:
    """Do the records, and let another connection lock their chunk: its end has to wait."""
    for record in task.idempotency.records(records):
        with record:
            pass
    other.set_autocommit(autocommit=False)
    with other.cursor() as cursor:
        cursor.execute("SELECT 1 FROM django_idempotent_tasks_batchchunk FOR UPDATE")


def alarm_once_it_waits(pid: int) -> None:
    """Strike the main thread when its server process waits for a lock; for a thread of its own."""
    try:
        with connections["default"].cursor() as cursor:

            def waits() -> bool:
                cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = %s", [pid])
                return bool(cursor.fetchone()[0])

            eventually(waits, "the end of the chunk waits")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
    finally:
        connections["default"].close()


def test_a_chunk_that_does_not_end_its_batch_ends_with_one_message(desk: Desk) -> None:
    desk.submit(desk.registering(), texts(10))
    first, second = desk.arrived()
    with heard_by_postgresql() as heard:
        desk.deliver(first)
    completed = [at for at, message in enumerate(heard.messages) if "SET reason" in message]
    (end,) = heard.messages[completed[-1] + 1 :]
    assert CHUNKS in end
    assert end.startswith("BEGIN; UPDATE")
    desk.deliver(second)
    assert (Batch.objects.get().state, sorted(done())) == (BatchState.FINISHED, texts(10))


def test_the_sweeper_ends_a_batch_whose_last_chunk_could_not_say_so_and_the_connection_goes_on(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    other = connections["default"].copy()

    def body(task: Any, records: list[Any]) -> None:
        do_and_lock(other, task, records)
        with connections["default"].cursor() as cursor:
            cursor.execute("SET lock_timeout = '50ms'")

    try:
        desk.submit(desk.chunked(body), texts(5))
        (end,) = desk.run()
    finally:
        other.close()
    assert end.error is None
    assert "the sweeper tells its batch of the end" in caplog.text
    assert get_store().session() is Session.IDLE
    desk.follow()
    desk.run()
    assert (outcomes(), len(desk.finished)) == (["ooooo"], 1)


@pytest.mark.parametrize("by", ["a time limit", "the server"])
def test_the_connection_is_usable_after_the_end_of_a_chunk_was_broken_off(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    other = connections["default"].copy()
    own: list[int] = []
    watching: list[threading.Thread] = []
    usable: list[bool] = []

    def strike(*_: object) -> None:
        if by == "a time limit":
            raise SoftTimeLimitExceeded
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", own)

    def body(task: Any, records: list[Any]) -> None:
        do_and_lock(other, task, records)
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            own.append(cursor.fetchone()[0])
        watching.append(threading.Thread(target=alarm_once_it_waits, args=own))
        watching[0].start()

    def stored(*_: object, **__: object) -> None:
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT 1")
        usable.append(get_store().session() is Session.IDLE)

    before = signal.signal(signal.SIGALRM, strike)
    try:
        task = desk.chunked(body)
        monkeypatch.setattr(task.backend, "mark_as_done", stored)  # it may be in this database
        desk.submit(task, texts(5))
        (end,) = desk.run()
    finally:
        for each in watching:
            each.join()
        signal.signal(signal.SIGALRM, before)
        other.close()
    assert (end.error, usable) == (None, [True])
    desk.follow()
    desk.run()
    assert (outcomes(), len(desk.finished)) == (["ooooo"], 1)


def test_the_statement_of_each_outcome_is_not_searched_for_what_alters_a_session(desk: Desk) -> None:
    def searches(records: int) -> int:
        before = altered._altered_by.cache_info().misses
        desk.submit(task, texts(records), chunk_size=records)
        desk.run()
        return altered._altered_by.cache_info().misses - before

    task = desk.registering()
    with connections["default"].execute_wrapper(altered._note):
        searches(3)
        assert searches(40) < 10
