"""The messages of many calls: out in bulk after the commit, or left to the sweeper; bounded in memory."""

from __future__ import annotations

import tracemalloc

import pytest
from django.db import connection, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_idempotent_tasks.messages import relay as relays
from django_idempotent_tasks.models import IdempotencyKey, Pause
from django_idempotent_tasks.states import State
from tests.sending.test_submit_many import calls, numbers_of
from tests.support.post import Post, no_broker, silent_broker

pytestmark = pytest.mark.django_db(
    transaction=True, databases=["default", "sqlite"], available_apps=["django_idempotent_tasks"]
)


def test_a_far_call_waits_in_the_ledger_and_a_near_one_with_the_broker(post: Post) -> None:
    charge = post.task()
    charge.submit_many([*calls(1, countdown=10), *calls(2, countdown=3600)])
    (message,) = post.arrived()
    assert (message["args"], message["eta"] is not None) == ([1], True)
    far = IdempotencyKey.objects.get(key_text="order_id=2")
    assert far.due_at is not None
    assert (far.sends, round((far.due_at - far.created_at).total_seconds(), -1)) == (-1, 3600)
    post.sweep(3700)
    assert 2 in numbers_of(post.arrived())


def test_an_eager_app_runs_them_in_their_order_once_all_are_accepted(post: Post) -> None:
    post.app.conf.task_always_eager = True
    ran: list[int] = []

    def run(order_id: int) -> int:
        ran.append(IdempotencyKey.objects.count())
        return order_id * 2

    submissions = post.task(run).submit_many(calls(1, 2, 1))
    assert [each.result.get() for each in submissions[:2]] == [2, 4]
    assert (submissions[2].created, ran) == (False, [2, 2])


def test_with_sync_fallback_each_is_run_after_the_commit(post: Post) -> None:
    ran: list[int] = []

    def run(order_id: int) -> None:
        ran.append(order_id)

    charge = post.task(run)
    with override_settings(IDEMPOTENT_TASKS={"SYNC_FALLBACK": True}):
        with transaction.atomic():
            charge.submit_many(calls(1, 2))
            assert ran == []
        assert ran == [1, 2]
    assert post.arrived() == []


def test_with_sync_fallback_a_body_that_raises_keeps_no_other_from_running(post: Post) -> None:
    ran: list[int] = []

    def run(order_id: int) -> None:
        ran.append(order_id)
        if order_id == 1:
            raise ZeroDivisionError

    post.app.conf.task_eager_propagates = True
    with override_settings(IDEMPOTENT_TASKS={"SYNC_FALLBACK": True}):
        post.task(run).submit_many(calls(1, 2, 3))
    assert ran == [1, 2, 3]


def test_an_eager_app_raises_the_first_error_once_all_have_run(post: Post) -> None:
    post.app.conf.update(task_always_eager=True, task_eager_propagates=True)
    ran: list[int] = []

    def run(order_id: int) -> None:
        ran.append(order_id)
        if order_id < 3:
            raise ZeroDivisionError(order_id)

    with pytest.raises(ZeroDivisionError, match="1"):
        post.task(run).submit_many(calls(1, 2, 3))
    assert ran == [1, 2, 3]
    assert not IdempotencyKey.objects.filter(state=State.PENDING).exists()


def test_without_a_broker_the_sweeper_sends_them_at_its_next_look(post: Post) -> None:
    charge = post.task()
    with no_broker(post):
        assert all(each.created for each in charge.submit_many(calls(1, 2, 3)))
    assert {row.sends for row in IdempotencyKey.objects.all()} == {-1}
    post.sweep(1)
    assert sorted(numbers_of(post.arrived())) == [1, 2, 3]


def test_a_broker_that_falls_silent_keeps_the_caller_for_seconds_only(post: Post) -> None:
    with silent_broker(post) as spent:
        post.task().submit_many(calls(*range(300)))
        assert spent() < 8
    assert {row.sends for row in IdempotencyKey.objects.all()} == {-1}


def test_what_is_not_out_in_time_is_left_to_the_sweeper(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "LONGEST", 0.0)
    post.task().submit_many(calls(*range(5)))
    out = numbers_of(post.arrived())
    assert out == [0]
    assert IdempotencyKey.objects.filter(sends=-1).count() == 4
    post.sweep(1)
    assert sorted(numbers_of(post.arrived())) == [1, 2, 3, 4]


def test_a_call_that_is_cancelled_before_its_message_goes_out_is_not_sent(post: Post) -> None:
    charge = post.task()
    with transaction.atomic():
        one, _ = charge.submit_many(calls(1, 2))
        assert charge.cancel(task_id=one.result.id) == "cancelled"
    assert numbers_of(post.arrived()) == [2]


@pytest.mark.skipif(connection.vendor != "postgresql", reason="counts PostgreSQL's round trips")
def test_a_list_takes_one_round_trip_beside_its_savepoint_and_one_after_the_commit(post: Post) -> None:
    charge = post.task()
    charge.submit_many(calls(1, 2))
    with CaptureQueriesContext(connection) as captured:
        with transaction.atomic():
            charge.submit_many(calls(*range(3, 203)))
        found = [query["sql"] for query in captured.captured_queries]
    # Pauses are read again every two seconds.
    words = [sql.split()[0] for sql in found if Pause._meta.db_table not in sql]
    assert words == ["BEGIN", "SAVEPOINT", "SAVEPOINT", "RELEASE", "COMMIT", "SELECT"]


@pytest.mark.skipif(connection.vendor != "postgresql", reason="a setting of PostgreSQL")
def test_the_callers_patience_with_locks_is_as_it_was(post: Post) -> None:
    charge = post.task()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '7s'")
        charge.submit_many(calls(1, 2))
        assert not charge.submit_many(calls(2))[0].created
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone()[0] == "7s"


@pytest.mark.slow
def test_ten_thousand_calls_take_a_handful_of_statements_for_each_thousand(post: Post) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("counts PostgreSQL's statements")
    charge = post.task()
    with CaptureQueriesContext(connection) as captured, transaction.atomic():
        submissions = charge.submit_many({"args": [number]} for number in range(10_000))
        assert len(captured) < 100
    assert IdempotencyKey.objects.count() == len({each.result.id for each in submissions}) == 10_000


@pytest.mark.slow
def test_a_generator_is_read_in_bounded_memory(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each call only its submission stays: far less than its message."""
    monkeypatch.setattr("django_idempotent_tasks.sending.many.BITE", 50)
    monkeypatch.setattr(relays, "LONGEST", 0.0)
    charge = post.task(fingerprint=None)
    size = 20_000

    def peak(count: int) -> int:
        tracemalloc.start()
        charge.submit_many({"args": [count * 10_000 + n, "x" * size]} for n in range(count))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(50)
    few, many = peak(100), peak(300)
    assert many - few < 200 * size / 4
