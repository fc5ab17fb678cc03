"""Many calls are accepted in one transaction, and each gets the answer that it would get alone."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from django_idempotent_tasks import (
    IdempotentTask,
    OuterTransaction,
)
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import DuplicateAttempt, IdempotencyKey
from django_idempotent_tasks.states import State
from tests.support.post import Post, rolled_back

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


def test_texts_that_a_database_could_take_for_its_own_words_are_kept(post: Post) -> None:
    charge = post.task(key=lambda _: "unused")
    odd = ["NULL", 'a"b', "a\\b", "{1,2}", "a,b", "%s", "'", "\x1e", "\\x1f"]
    given = [{"args": [1], "idempotency_key": text, "scope": text, "task_id": text} for text in odd]
    assert all(each.created for each in charge.submit_many(given))
    rows = IdempotencyKey.objects.values_list("scope", "task_id", "key_text")
    assert set(rows) == {(text, text, text.replace("\x1e", "\ufffd")) for text in odd}


def test_each_call_gets_a_task_id_as_celery_makes_them(post: Post) -> None:
    ids = [each.result.id for each in post.task().submit_many(calls(*range(250)))]
    assert len(set(ids)) == 250
    assert {(str(UUID(each)) == each, UUID(each).version) for each in ids} == {(True, 4)}


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


def test_waiting_for_a_result_inside_the_transaction_is_refused(post: Post) -> None:
    with transaction.atomic():
        _, last = post.task().submit_many(calls(1, 2))
        with pytest.raises(OuterTransaction):
            last.result.get(timeout=1)


def test_waiting_for_a_far_call_inside_the_transaction_is_refused_as_well(post: Post) -> None:
    with transaction.atomic():
        (far,) = post.task().submit_many(calls(1, countdown=3600))
        with pytest.raises(OuterTransaction):
            far.result.get(timeout=1)


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
