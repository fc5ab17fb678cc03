"""A call that is sent while its key's body runs is accepted, and what its sender wrote is not missed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from django_idempotent_tasks import OuterTransaction
from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.values import Call, Claim
from django_idempotent_tasks.models import DuplicateAttempt, FollowUp, IdempotencyKey
from django_idempotent_tasks.states import Reason, State
from django_idempotent_tasks.sweeper.sweep import sweep_once
from tests.running.delivery.heard import told
from tests.support.post import Post, no_broker, only_row, rolled_back

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]

LEASE = 60


def task_of(post: Post, **options: Any) -> Any:
    """A task with follow-ups; other amounts are other arguments of one key."""
    return post.task(on_duplicate="follow_up", **options)


def begun(row: IdempotencyKey | None = None) -> Claim:
    """The run of the one key, as a worker claims it."""
    row = row or only_row()
    call = Call(Identity(row.digest, row.scope, row.key_text, None), row.task, row.task_id, None)
    grant = get_store().claim_reserved(call, owner="w:1:a", lease=LEASE)
    assert grant is not None
    return Claim(call, "w:1:a", grant, LEASE)


def ended(claim: Claim) -> None:
    """The run has ended, and its process has died before it looked for a follow-up."""
    assert get_store().complete(claim, result="1", reason=Reason.DONE, retention=0, window=900)


def begins_elsewhere(digest: UUID) -> bool:
    """Whether a worker can claim the waiting call now."""
    row = IdempotencyKey.objects.get(digest=digest)
    call = Call(Identity(row.digest, row.scope, row.key_text, None), row.task, row.task_id, None)
    with get_store().side_connection() as side, side.connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = 100")
        try:
            return side.claim_reserved(call, owner="w:2:b", lease=LEASE) is not None
        except Exception:  # noqa: BLE001  it waits for the lock in vain
            return False


def test_a_call_is_accepted_while_the_body_runs_and_sent_when_that_has_ended(post: Post) -> None:
    refresh = task_of(post)
    first = refresh.delay(7)
    claim = begun()
    post.arrived()
    second = refresh.delay(7, "2")
    assert (second.duplicate, second.id != first.id) == (False, True)
    assert post.arrived() == []
    ended(claim)
    sweep_once(post.app, get_store())
    (message,) = post.arrived()
    assert (message["id"], message["args"]) == (second.id, [7, "2"])
    assert message["idempotency"]["reserved"] is True


def test_submit_says_that_the_follow_up_was_created(post: Post) -> None:
    refresh = task_of(post, reserve=False)
    refresh.submit((7,))
    begun()
    second = refresh.submit((7,))
    third = refresh.submit((7,))
    assert (second.created, second.state, second.reason) == (True, State.PENDING, "")
    assert (third.created, third.state, third.reason) == (False, State.PENDING, "in_progress")
    assert third.result is not None
    assert second.result is not None
    assert third.result.id == second.result.id


@pytest.mark.parametrize(("keep", "expected"), [("last", "4"), ("first", "2")])
def test_later_calls_are_duplicates_of_the_follow_up(post: Post, keep: str, expected: str) -> None:
    refresh = task_of(post, keep=keep)
    refresh.delay(7)
    claim = begun()
    post.arrived()
    results = [refresh.delay(7, amount) for amount in ("2", "3", "4")]
    assert [result.duplicate for result in results] == [False, True, True]
    assert len({result.id for result in results}) == 1
    assert DuplicateAttempt.objects.count() == 2
    ended(claim)
    sweep_once(post.app, get_store())
    (message,) = post.arrived()
    assert message["args"] == [7, expected]


def test_a_rollback_leaves_no_follow_up(post: Post) -> None:
    refresh = task_of(post)
    refresh.delay(7)
    begun()
    with rolled_back():
        refresh.delay(7)
        assert FollowUp.objects.exists()
    assert not FollowUp.objects.exists()
    with transaction.atomic():
        with rolled_back():
            refresh.delay(7)
        assert not refresh.delay(7).duplicate
    assert FollowUp.objects.count() == 1


def test_a_run_that_ends_before_the_senders_commit_is_followed_at_that_commit(post: Post) -> None:
    refresh = task_of(post)
    refresh.delay(7)
    claim = begun()
    post.arrived()
    with transaction.atomic():
        second = refresh.delay(7)
        with get_store().side_connection() as side:
            assert side.complete(claim, result="1", reason=Reason.DONE, retention=0, window=900)
            assert side.promotable(bite=9) == []
        assert post.arrived() == []
    assert [message["id"] for message in post.arrived()] == [second.id]
    assert (only_row().task_id, only_row().generation) == (second.id, 2)


def test_what_a_duplicate_has_written_is_committed_before_the_waiting_call_begins(post: Post) -> None:
    refresh = task_of(post)
    first = refresh.delay(7)
    with transaction.atomic():
        assert refresh.delay(7).id == first.id
        assert not begins_elsewhere(only_row().digest)
    assert begins_elsewhere(only_row().digest)


def test_what_a_duplicate_of_the_follow_up_has_written_is_committed_before_that_begins(post: Post) -> None:
    refresh = task_of(post)
    refresh.delay(7)
    claim = begun()
    second = refresh.delay(7)
    post.arrived()
    with transaction.atomic():
        assert refresh.delay(7).id == second.id
        with get_store().side_connection() as side:
            assert side.complete(claim, result="1", reason=Reason.DONE, retention=0, window=900)
            assert side.promote(claim.digest, window=900, republish=300) is None
    assert [message["id"] for message in post.arrived()] == [second.id]


def test_a_wait_for_a_call_that_this_transaction_holds_up_is_refused(post: Post) -> None:
    refresh = task_of(post)
    refresh.delay(7)
    with transaction.atomic():
        again = refresh.delay(7)
        with pytest.raises(OuterTransaction):
            again.get(timeout=1)


def test_a_call_after_the_end_is_the_duplicate_of_a_follow_up_that_is_not_promoted_yet(post: Post) -> None:
    refresh = task_of(post)
    refresh.delay(7)
    claim = begun()
    second = refresh.delay(7)
    ended(claim)
    third = refresh.delay(7)
    assert (third.id, third.duplicate) == (second.id, True)
    with transaction.atomic():
        assert refresh.delay(7).id == second.id
    assert only_row().task_id == second.id


def test_a_call_after_a_cancel_of_the_run_waits_for_that_ones_lease(post: Post) -> None:
    refresh = task_of(post)
    first = refresh.delay(7)
    claim = begun()
    assert refresh.cancel(task_id=first.id) == "cancelled"
    post.arrived()
    second = refresh.delay(7)
    assert (second.duplicate, FollowUp.objects.get().task_id) == (False, second.id)
    assert get_store().promote(claim.digest, window=900, republish=300) is None
    post.sweep(after=LEASE + 1)
    assert [message["id"] for message in post.arrived()] == [second.id]


def test_a_call_after_a_cancel_does_not_take_a_key_that_was_held_for_a_moment(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    refresh = task_of(post)
    first = refresh.delay(7)
    claim = begun()
    assert refresh.cancel(task_id=first.id) == "cancelled"
    store, call = type(get_store()), claim.call
    follow = store.follow

    def meets(self: Any, *given: Any, **named: Any) -> bool:
        monkeypatch.undo()
        with get_store().side_connection() as side, side.holding(call):
            return bool(follow(self, *given, **named))

    monkeypatch.setattr(store, "follow", meets)
    refresh.delay(7)
    assert (only_row().state, FollowUp.objects.count()) == (State.CANCELLED, 1)


def test_a_call_after_a_cancel_of_what_had_not_begun_is_new_work(post: Post) -> None:
    refresh = task_of(post)
    first = refresh.delay(7)
    assert refresh.cancel(task_id=first.id) == "cancelled"
    assert refresh.delay(7).id == only_row().task_id


def test_a_call_after_the_end_is_new_work(post: Post) -> None:
    refresh = task_of(post)
    refresh.delay(7)
    ended(begun())
    again = refresh.delay(7)
    assert (again.duplicate, only_row().task_id, only_row().generation) == (False, again.id, 2)


def test_a_call_of_the_same_task_id_is_no_duplicate_of_itself(post: Post) -> None:
    refresh = task_of(post)
    refresh.delay(7)
    begun()
    one, two = (refresh.apply_async((7,), task_id="X") for _ in range(2))
    assert (one.duplicate, two.duplicate, two.id) == (False, False, "X")
    assert not DuplicateAttempt.objects.exists()


def test_many_calls_at_once_follow_what_runs(post: Post) -> None:
    refresh = task_of(post)
    refresh.delay(7)
    claim = begun()
    post.arrived()
    calls: Any = [{"args": (number, str(place))} for place, number in enumerate((7, 8, 7))]
    submissions = refresh.submit_many(calls)
    assert [each.created for each in submissions] == [True, True, False]
    assert [message["args"] for message in post.arrived()] == [[8, "1"]]
    ended(claim)
    sweep_once(post.app, get_store())
    assert [message["args"] for message in post.arrived()] == [[7, "2"]]


def test_a_follow_up_without_a_broker_is_sent_later(post: Post) -> None:
    refresh = task_of(post)
    refresh.delay(7)
    claim = begun()
    post.arrived()
    with no_broker(post), transaction.atomic():
        second = refresh.delay(7)
        with get_store().side_connection() as side:
            side.complete(claim, result="1", reason=Reason.DONE, retention=0, window=900)
    assert post.arrived() == []
    post.sweep(after=0)
    assert [message["id"] for message in post.arrived()] == [second.id]


def test_other_tasks_send_what_they_sent_before(post: Post) -> None:
    charge = post.task(name="shop.other")
    assert told(lambda: charge.delay(7)).words == ["WITH"]
    heard = told(lambda: charge.delay(7))
    assert heard.words == ["WITH", "WITH"]
    assert not [statement for statement in heard.statements if "followup" in statement]


def test_what_a_follow_up_and_its_promotion_say_to_the_database(post: Post) -> None:
    refresh = task_of(post)
    assert told(lambda: refresh.delay(7)).words == ["WITH"]
    assert told(lambda: refresh.delay(7)).words == ["WITH", "SELECT", "INSERT"]
    claim = begun()
    follows = ["WITH", "SELECT", "SELECT", "INSERT"]
    assert told(lambda: refresh.delay(7)).words == [*follows, "SELECT"]
    assert told(lambda: refresh.delay(7)).words == ["WITH", "SELECT", "SELECT", "INSERT", "SELECT", "INSERT"]
    ended(claim)
    heard = told(lambda: get_store().promote(claim.digest, window=900, republish=300))
    assert heard.words == ["SELECT", "SELECT", "SELECT", "INSERT", "DELETE", "UPDATE", "DELETE"]
