"""What a refused duplicate costs its sender, and what its record says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_idempotent_tasks.ledger import reserving
from django_idempotent_tasks.models import DuplicateAttempt, IdempotencyKey
from tests.support.ledger.known_pauses import known_pauses
from tests.support.post import Post

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]


@pytest.fixture
def charge(post: Post) -> Any:
    """A task of which nobody has sent a call before, so that nobody expects anything of the next one."""
    return post.task(name=f"shop.charge-{uuid4().hex}")


@pytest.fixture
def expected(charge: Any) -> Any:
    """The task after so many duplicates of the call 7 that the next call is expected to be one."""
    charge.delay(7)
    for _ in range(3):
        charge.delay(7)
    DuplicateAttempt.objects.all().delete()
    return charge


def told(work: Callable[[], object]) -> list[str]:
    """The statements of ``work``, but for the look for pauses."""
    with known_pauses(), CaptureQueriesContext(connection) as captured:
        work()
    return [query["sql"].strip() for query in captured.captured_queries]


def records() -> Iterator[tuple[str, str]]:
    return DuplicateAttempt.objects.values_list("place", "reason").iterator()


def test_a_refused_duplicate_costs_two_statements_and_in_a_run_of_them_one(charge: Any) -> None:
    charge.delay(7)
    assert [len(told(lambda: charge.delay(7))) for _ in range(4)] == [2, 2, 1, 1]
    assert len(told(lambda: charge.submit((7,)))) == 1
    assert list(records()) == [("send", "in_progress")] * 5


def test_a_new_call_behind_a_run_of_duplicates_is_accepted(expected: Any) -> None:
    assert len(told(lambda: expected.delay(8))) == 2
    assert len(told(lambda: expected.delay(9))) == 2
    assert len(told(lambda: expected.delay(10))) == 1
    assert IdempotencyKey.objects.count() == 4
    assert not DuplicateAttempt.objects.exists()


def test_a_new_call_is_accepted_however_long_the_look_for_a_duplicate_has_taken(
    expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserving, "LONGEST_HOLD", 0.0)
    assert not expected.delay(8).duplicate


def test_only_a_record_that_is_committed_by_itself_waits_for_no_disk(expected: Any) -> None:
    def durability() -> str:
        with connection.cursor() as cursor:
            cursor.execute("SHOW synchronous_commit")
            return str(cursor.fetchone()[0])

    (alone,) = told(lambda: expected.delay(7))
    assert "synchronous_commit" in alone
    with transaction.atomic():
        usual = durability()
        expected.delay(7)
        assert durability() == usual != "off"
    assert list(records()) == [("send", "in_progress")] * 2


def test_a_duplicate_in_a_run_of_them_costs_one_statement_in_its_senders_transaction(expected: Any) -> None:
    with transaction.atomic():
        IdempotencyKey.objects.exists()  # begins it
        assert len(told(lambda: expected.delay(7))) == 1
    assert list(records()) == [("send", "in_progress")]


def test_the_record_says_why(post: Post, expected: Any) -> None:
    post.work(expected)
    assert expected.submit((7,)).reason == "already_completed"
    assert list(records()) == [("send", "already_completed")]


def test_the_call_that_has_the_key_is_no_duplicate_of_itself(expected: Any) -> None:
    (id_,) = IdempotencyKey.objects.values_list("task_id", flat=True)
    assert expected.apply_async((7,), task_id=id_).id == id_
    assert not DuplicateAttempt.objects.exists()


def test_a_duplicate_that_is_rolled_back_leaves_no_record(expected: Any) -> None:
    with transaction.atomic():
        expected.delay(7)
        transaction.set_rollback(True)
    assert not DuplicateAttempt.objects.exists()
