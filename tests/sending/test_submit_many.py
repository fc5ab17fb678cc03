"""Many calls are accepted in one transaction, and each gets the answer that it would get alone."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from celery import chain
from django.db import connection, transaction
from django.db.transaction import TransactionManagementError
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_idempotent_tasks import (
    ConfigurationError,
    IdempotentTask,
    InvalidKey,
    KeyReused,
    OuterTransaction,
)
from django_idempotent_tasks.exceptions import PayloadTooLarge
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.messages import relay as relays
from django_idempotent_tasks.models import DuplicateAttempt, IdempotencyKey
from django_idempotent_tasks.states import State
from tests.support.post import Post, no_broker, rolled_back, silent_broker

pytestmark = pytest.mark.django_db(
    transaction=True, databases=["default", "sqlite"], available_apps=["django_idempotent_tasks"]
)


def calls(*numbers: int, **options: Any) -> list[dict[str, Any]]:
    return [{"args": [number], **options} for number in numbers]


def numbers_of(messages: list[Any]) -> list[int]:
    return [message["args"][0] for message in messages]


def test_each_call_is_accepted_and_goes_out_after_the_commit(post: Post) -> None:
    charge = post.task(reserve=False)
    with transaction.atomic():
        submissions = charge.submit_many(calls(3, 1, 2))
        assert {row.state for row in IdempotencyKey.objects.all()} == {State.PENDING}
        assert post.arrived() == []
    assert [each.created for each in submissions] == [True] * 3
    messages = post.arrived()
    assert numbers_of(messages) == [3, 1, 2]
    assert [message["id"] for message in messages] == [each.result.id for each in submissions]
    assert {message["idempotency"]["reserved"] for message in messages} == {True}
    assert [each.key for each in submissions] == ["order_id=3", "order_id=1", "order_id=2"]


def test_what_arrives_is_run_once_and_answered_by_its_result(post: Post) -> None:
    charge = post.task(retention=0)
    submissions = charge.submit_many(calls(1, 2))
    post.work(charge)
    assert [each.result.get() for each in submissions] == [1, 2]
    assert [each.created for each in charge.submit_many(calls(1, 2))] == [True, True]


def test_without_a_transaction_all_are_committed_together(post: Post) -> None:
    assert len(post.task().submit_many(calls(*range(20)))) == 20
    assert sorted(numbers_of(post.arrived())) == list(range(20))


def test_a_rollback_leaves_neither_rows_nor_messages(post: Post) -> None:
    charge = post.task()
    with rolled_back():
        charge.submit_many(calls(1, 2))
    assert not IdempotencyKey.objects.exists()
    assert post.arrived() == []
    assert all(each.created for each in charge.submit_many(calls(1, 2)))


def test_a_savepoint_that_is_rolled_back_takes_its_calls_with_it(post: Post) -> None:
    charge = post.task()
    with transaction.atomic():
        with rolled_back():
            charge.submit_many(calls(1, 2))
        kept = charge.submit_many(calls(2, 3))
    assert [each.created for each in kept] == [True, True]
    assert numbers_of(post.arrived()) == [2, 3]


def test_duplicates_are_told_who_has_the_work_and_are_recorded(post: Post) -> None:
    charge = post.task()
    first = charge.submit(args=[2])
    assert first.result is not None
    submissions = charge.submit_many(calls(1, 2, 3))
    assert [each.created for each in submissions] == [True, False, True]
    refused = submissions[1]
    assert (refused.result.id, refused.result.duplicate) == (first.result.id, True)
    assert (refused.reason, refused.state) == ("in_progress", State.PENDING)
    attempt = DuplicateAttempt.objects.get()
    assert (attempt.place, attempt.reason, attempt.summed) == ("send", "in_progress", False)
    assert numbers_of(post.arrived()) == [2, 1, 3]


def test_of_the_same_key_twice_the_second_is_a_duplicate_of_the_first(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_idempotent_tasks.sending.many.BITE", 4)
    submissions = post.task().submit_many(calls(1, 2, 1, 3, 2, 1))
    assert [each.created for each in submissions] == [True, True, False, True, False, False]
    one, two = submissions[0].result.id, submissions[1].result.id
    assert [submissions[place].result.id for place in (2, 4, 5)] == [one, two, one]
    assert DuplicateAttempt.objects.count() == 3
    assert numbers_of(post.arrived()) == [1, 2, 3]


def test_the_same_task_id_again_is_no_duplicate(post: Post) -> None:
    charge = post.task()
    (first,) = charge.submit_many(calls(1, task_id="A"))
    (again,) = charge.submit_many(calls(1, task_id="A"))
    assert (first.created, again.created, again.result.duplicate) == (True, False, False)
    assert not DuplicateAttempt.objects.exists()


def test_finished_and_failed_keys_answer_as_a_single_call_is_answered(post: Post) -> None:
    charge = post.task(retention=3600)
    charge.submit_many(calls(1, 2))
    post.work(charge)
    IdempotencyKey.objects.filter(key_text="order_id=2").update(state=State.FAILED, open_at=None)
    done, failed, fresh = charge.submit_many(calls(1, 2, 3))
    assert (done.created, done.reason, done.state) == (False, "already_completed", State.SUCCEEDED)
    assert done.result.get() == 1
    assert (failed.created, failed.reason) == (False, "failed")
    assert fresh.created
    with shifted(3601):
        assert [each.created for each in charge.submit_many(calls(1, 2))] == [True, False]
    assert IdempotencyKey.objects.get(key_text="order_id=1").generation == 2


def test_calls_are_mappings_or_signatures_with_options_for_all(post: Post) -> None:
    charge = post.task()
    given = [
        {"kwargs": {"order_id": 1}, "idempotency_key": "mine"},
        charge.s(2),
        charge.s(3).set(priority=7, idempotency_key="own"),
        dict(charge.si(4)),
        {"args": (5,), "scope": "b"},
    ]
    submissions = charge.submit_many(given, scope="a", priority=3)
    assert [each.created for each in submissions] == [True] * 5
    rows = {row.task_id: row for row in IdempotencyKey.objects.all()}
    found = [rows[each.result.id] for each in submissions]
    assert [row.scope for row in found] == ["a", "a", "a", "a", "b"]
    assert [row.key_text for row in found] == ["mine", "order_id=2", "own", "order_id=4", "order_id=5"]
    priorities = {**dict.fromkeys((1, 2, 4, 5), 3), 3: 7}
    for message in post.arrived():
        number = message["kwargs"].get("order_id") or message["args"][0]
        assert message["properties"]["priority"] == priorities.pop(number)
    assert priorities == {}


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


@pytest.mark.parametrize(
    ("bad", "error", "words"),
    [
        ({"args": [9], "headers": {"x": object()}}, ConfigurationError, "'headers' is not JSON"),
        ({"args": ["x" * 2000]}, PayloadTooLarge, "MAX_PAYLOAD"),
        ({"args": [9], "countdown": "soon"}, ConfigurationError, "option 'countdown'"),
        ({"args": [9], "idempotency_key": ""}, InvalidKey, "it is empty"),
        ("nothing", ConfigurationError, "a mapping"),
    ],
)
def test_an_error_names_the_place_of_its_call_and_nothing_is_written(
    post: Post, monkeypatch: pytest.MonkeyPatch, bad: Any, error: type[Exception], words: str
) -> None:
    monkeypatch.setattr("django_idempotent_tasks.sending.many.BITE", 2)
    charge = post.task()
    with (
        transaction.atomic(),
        override_settings(IDEMPOTENT_TASKS={"MAX_PAYLOAD": 1000}),
    ):
        charge.submit(args=[100])
        with pytest.raises(error, match=words) as caught:
            charge.submit_many([*calls(0, 1, 2, 3, 4), bad, *calls(6)])
        assert str(caught.value).startswith("calls[5]: ")
        assert IdempotencyKey.objects.get().key_text == "order_id=100"
    assert numbers_of(post.arrived()) == [100]


def test_another_payload_under_the_key_names_the_first_such_place(post: Post) -> None:
    charge = post.task(fingerprint="amount")
    charge.submit(args=[7, "1"])
    given = [*calls(*range(5)), {"args": [3, "2"]}, {"args": [7, "2"]}, {"args": [4, "9"]}]
    with pytest.raises(KeyReused, match=r"^calls\[5\]: ") as caught:
        charge.submit_many(given)
    assert "other payload" in str(caught.value)
    assert IdempotencyKey.objects.count() == 1
    assert numbers_of(post.arrived()) == [7]


def test_an_error_of_the_callers_generator_undoes_what_was_written(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_idempotent_tasks.sending.many.BITE", 2)

    def read() -> Iterator[dict[str, Any]]:
        yield from calls(1, 2, 3)
        raise LookupError("line 4")

    with pytest.raises(LookupError, match="line 4"):
        post.task().submit_many(read())
    assert not IdempotencyKey.objects.exists()


def test_what_belongs_to_one_call_is_refused_for_all(post: Post) -> None:
    charge = post.task()
    for name in ("task_id", "idempotency_key", "args", "kwargs"):
        with pytest.raises(ConfigurationError, match=name):
            charge.submit_many(calls(1), **{name: "x"})


def test_signatures_of_a_canvas_or_of_another_task_are_refused(post: Post) -> None:
    charge, refund = post.task(), post.task(name="shop.refund")
    for other in (refund.s(1), chain(charge.s(1), refund.si(2)), charge.s(1).set(group_id="g")):
        with pytest.raises(ConfigurationError, match=r"calls\[1\]"):
            charge.submit_many([charge.s(2), other])
    assert not IdempotencyKey.objects.exists()


def test_a_task_that_cannot_be_submitted_refuses_many(post: Post) -> None:
    charge = post.task(sensitive=["amount"], reserve=False)
    with pytest.raises(ConfigurationError, match="cannot be submitted"):
        charge.submit_many(calls(1))


def test_in_manual_transaction_management_nothing_is_reserved(post: Post) -> None:
    transaction.set_autocommit(False)
    try:
        with pytest.raises(TransactionManagementError):
            post.task().submit_many(calls(1))
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    assert not IdempotencyKey.objects.exists()


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


def test_waiting_for_a_result_inside_the_transaction_is_refused(post: Post) -> None:
    with transaction.atomic():
        _, last = post.task().submit_many(calls(1, 2))
        with pytest.raises(OuterTransaction):
            last.result.get(timeout=1)


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


def test_a_class_of_the_project_stamps_each_call(post: Post) -> None:
    class Traced(IdempotentTask[Any, Any]):
        abstract = True

        def apply_async(  # type: ignore[override]  # as projects write it
            self, args: Any = None, kwargs: Any = None, **options: Any
        ) -> Any:
            headers = {**(options.pop("headers", None) or {}), "trace": f"t{args[0]}"}
            return super().apply_async(args, kwargs, headers=headers, **options)

    post.task(base=Traced).submit_many(calls(1, 2))
    assert [message["trace"] for message in post.arrived()] == ["t1", "t2"]


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
