"""What people and callers decide about a follow-up, and about the call that it waits for."""

from __future__ import annotations

from typing import Any

import pytest
from celery.exceptions import TaskRevokedError
from django.db import connection, transaction

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import AnsweredCall, FollowUp, IdempotencyKey
from django_idempotent_tasks.operations import dead_letters
from django_idempotent_tasks.states import Reason, State
from django_idempotent_tasks.sweeper.sweep import sweep_once
from django_idempotent_tasks.testing.contract.bench import a_failure
from tests.sending.test_follow_ups import begun, ended
from tests.support.by_hand import ByHand, by_hand
from tests.support.post import Post, only_row

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]


class Followed:
    """A call that runs, and the one that follows it."""

    def __init__(self, post: Post) -> None:
        self.post = post
        self.task = post.task(on_duplicate="follow_up")
        self.first = self._send()
        post.arrived()
        self.claim = begun()
        self.second = self._send()

    def _send(self) -> Any:
        return self.task.apply_async((7,), idempotency_key="evt", scope="tenant")

    def fail(self, state: State = State.FAILED) -> None:
        """End the run as a dead letter."""
        done = get_store().fail(
            self.claim, state=state, reason=Reason.PERMANENT, failure=a_failure(), retention=900
        )
        assert done


@pytest.fixture
def followed(post: Post) -> Followed:
    return Followed(post)


def test_a_follow_up_is_cancelled_by_its_task_id_and_the_run_goes_on(followed: Followed) -> None:
    assert followed.task.cancel(task_id=followed.second.id) == "cancelled"
    assert (FollowUp.objects.exists(), only_row().state) == (False, State.RUNNING)
    with pytest.raises(TaskRevokedError):
        followed.second.get(timeout=5)
    assert followed.task.cancel(task_id=followed.second.id) == "cancelled"


@by_hand
def test_a_follow_up_is_cancelled_in_a_transaction_begun_by_hand_as_well(
    followed: Followed, by_hand: ByHand, caplog: pytest.LogCaptureFixture
) -> None:
    with by_hand():
        assert followed.task.cancel(task_id=followed.second.id) == "cancelled"
    assert (FollowUp.objects.exists(), only_row().state) == (False, State.RUNNING)
    assert f"nor worker learns that {followed.second.id} was cancelled" in caplog.text


def test_the_run_is_cancelled_by_its_task_id_and_the_follow_up_begins_after_a_lease(
    followed: Followed,
) -> None:
    assert followed.task.cancel(task_id=followed.first.id) == "cancelled"
    sweep_once(followed.post.app, get_store())
    assert (only_row().state, FollowUp.objects.count()) == (State.CANCELLED, 1)
    followed.post.sweep(after=61)
    assert (only_row().state, only_row().task_id) == (State.PENDING, followed.second.id)


def test_a_key_is_cancelled_with_all_that_is_known_of_it(followed: Followed) -> None:
    assert followed.task.cancel(idempotency_key="evt", scope="tenant") == "cancelled"
    assert (only_row().state, FollowUp.objects.exists()) == (State.CANCELLED, False)
    assert AnsweredCall.objects.get().task_id == followed.second.id


def test_a_key_that_has_ended_is_cancelled_with_the_follow_up_that_waits_for_it(followed: Followed) -> None:
    ended(followed.claim)
    assert followed.task.cancel(idempotency_key="evt", scope="tenant") == "cancelled"
    assert followed.task.cancel(idempotency_key="evt", scope="tenant") == "finished"
    assert get_store().promotable(bite=9) == []


def test_a_cancellation_that_is_rolled_back_leaves_the_follow_up(followed: Followed) -> None:
    with transaction.atomic():
        assert followed.task.cancel(task_id=followed.second.id) == "cancelled"
        transaction.set_rollback(True)
    assert FollowUp.objects.count() == 1


def test_another_tasks_call_is_not_cancelled(followed: Followed) -> None:
    other = followed.post.task(name="shop.other", on_duplicate="follow_up")
    assert other.cancel(task_id=followed.second.id) == "not_found"
    assert FollowUp.objects.count() == 1


def test_a_result_that_is_revoked_cancels_its_follow_up(followed: Followed) -> None:
    followed.second.revoke()
    assert (FollowUp.objects.exists(), only_row().state) == (False, State.RUNNING)
    with pytest.raises(TaskRevokedError):
        followed.second.get(timeout=5)


def test_the_first_calls_result_is_its_own_after_the_key_has_gone_on(followed: Followed) -> None:
    ended(followed.claim)
    sweep_once(followed.post.app, get_store())
    assert followed.first.get(timeout=5) == 1
    assert only_row().task_id == followed.second.id
    followed.post.work(followed.task)
    assert followed.second.get(timeout=5) == 7


@pytest.mark.parametrize("state", [State.FAILED, State.REVIEW])
def test_a_dead_letter_is_not_redriven_beside_its_follow_up(followed: Followed, state: State) -> None:
    followed.fail(state)
    decision = dead_letters.redrive(get_store(), only_row(), by="ann")
    assert (decision.done, "run in its place" in decision.problem) == (False, True)
    sweep_once(followed.post.app, get_store())
    assert (only_row().state, only_row().task_id) == (State.PENDING, followed.second.id)
    assert dead_letters.redrive(get_store(), only_row(), by="ann").done is False


def test_a_dead_letter_that_is_discarded_or_resolved_goes_on_with_its_follow_up(post: Post) -> None:
    for number, decide in enumerate((_discard, _resolve)):
        IdempotencyKey.objects.all().delete()
        followed = Followed(Post()) if number else Followed(post)
        followed.fail()
        assert decide(only_row()).done
        sweep_once(followed.post.app, get_store())
        assert (only_row().state, only_row().task_id) == (State.PENDING, followed.second.id)


def _discard(row: IdempotencyKey) -> Any:
    return dead_letters.discard(get_store(), row, by="ann")


def _resolve(row: IdempotencyKey) -> Any:
    return dead_letters.resolve(get_store(), row, {"ok": 1}, by="ann")


def test_a_redriven_call_is_followed_as_a_first_one_is(followed: Followed) -> None:
    followed.fail()
    assert followed.task.cancel(task_id=followed.second.id) == "cancelled"
    assert dead_letters.redrive(get_store(), only_row(), by="ann").done
    begun()
    third = followed.task.apply_async((7,), idempotency_key="evt", scope="tenant")
    assert not third.duplicate
    assert FollowUp.objects.get().task_id == third.id


def test_a_lease_that_ends_moves_the_run_and_leaves_the_follow_up_waiting(followed: Followed) -> None:
    with shifted(61):
        sweep_once(followed.post.app, get_store())
    assert (only_row().state, only_row().task_id) == (State.RETRY, followed.first.id)
    assert FollowUp.objects.count() == 1


REFUSED = """
CREATE FUNCTION refused() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
CREATE TRIGGER refused BEFORE DELETE ON django_idempotent_tasks_followup FOR EACH ROW
  WHEN (OLD.key_text = 'evt') EXECUTE FUNCTION refused();
"""


def test_a_follow_up_that_the_database_refuses_holds_up_no_other(followed: Followed) -> None:
    other = followed.task.apply_async((7,), idempotency_key="other", scope="tenant")
    row = IdempotencyKey.objects.get(key_text="other")
    run = begun(row)
    second = followed.task.apply_async((7,), idempotency_key="other", scope="tenant")
    ended(run)
    ended(followed.claim)
    with connection.cursor() as cursor:
        cursor.execute(REFUSED)
    try:
        sweep_once(followed.post.app, get_store())
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION refused() CASCADE")
    assert {row.key_text for row in FollowUp.objects.all()} == {"evt"}
    now = IdempotencyKey.objects.get(key_text="other")
    assert (now.task_id, now.task_id != other.id) == (second.id, True)
