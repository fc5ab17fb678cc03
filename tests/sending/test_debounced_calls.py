"""Changes put a debounced call off until they have come to rest, and not for ever."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, transaction

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.sweeper.sweep import sweep_once
from tests.sending.test_follow_ups import begun, ended, task_of
from tests.support.by_hand import ByHand, by_hand
from tests.support.post import Post, only_row, rolled_back

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]


def debounced(post: Post, **options: Any) -> Any:
    return task_of(post, debounce=30, **options)


def rest() -> float:
    """Seconds until the one call's time."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM due_at - statement_timestamp())"
            " FROM django_idempotent_tasks_idempotencykey"
        )
        return float(cursor.fetchone()[0])


def test_a_debounced_call_is_sent_once_its_changes_have_come_to_rest(post: Post) -> None:
    refresh = debounced(post)
    first = refresh.delay(7, "1")
    post.sweep(after=20)
    assert post.arrived() == []
    with shifted(20):
        assert refresh.delay(7, "2").id == first.id
    post.sweep(after=45)
    assert post.arrived() == []
    post.sweep(after=51)
    (message,) = post.arrived()
    assert (message["id"], message["args"]) == (first.id, [7, "2"])


@by_hand
def test_an_eager_duplicate_is_answered_in_a_transaction_begun_by_hand_as_well(
    post: Post, by_hand: ByHand
) -> None:
    refresh = debounced(post)
    first = refresh.delay(7, "1")
    post.app.conf.task_always_eager = True
    with by_hand():
        assert refresh.delay(7, "2").id == first.id
    assert 25 < rest() <= 30


def test_a_debounced_call_keeps_its_own_arguments_where_the_first_are_to_be_kept(post: Post) -> None:
    refresh = debounced(post, keep="first")
    refresh.delay(7, "1")
    refresh.delay(7, "2")
    post.sweep(after=31)
    assert [message["args"] for message in post.arrived()] == [[7, "1"]]


def test_no_stream_of_changes_puts_a_call_off_for_ever(post: Post) -> None:
    refresh = debounced(post, debounce_max=40)
    refresh.delay(7)
    for moment in (10, 20, 29):
        with shifted(moment):
            refresh.delay(7)
    assert 38 < rest() < 41


def test_a_change_in_a_transaction_puts_a_call_off_when_it_is_committed(post: Post) -> None:
    refresh = debounced(post)
    refresh.delay(7, "1")
    with shifted(10), transaction.atomic():
        refresh.delay(7, "2")
        refresh.delay(7, "2")
    assert 38 < rest() < 41
    with shifted(10), rolled_back():
        refresh.delay(7, "3")
    post.sweep(after=41)
    assert [message["args"] for message in post.arrived()] == [[7, "2"]]


def test_a_debounced_call_that_was_sent_is_not_put_off(post: Post) -> None:
    refresh = debounced(post)
    refresh.delay(7, "1")
    post.sweep(after=31)
    assert len(post.arrived()) == 1
    with shifted(31):
        assert refresh.delay(7, "2").duplicate
    assert rest() > 300


def test_a_debounced_follow_up_waits_for_its_own_time(post: Post) -> None:
    refresh = debounced(post)
    refresh.delay(7)
    with shifted(31):
        claim = begun()
        second = refresh.delay(7, "2")
        ended(claim)
        sweep_once(post.app, get_store())
    assert (only_row().task_id, only_row().sends) == (second.id, -1)
    assert post.arrived() == []
    post.sweep(after=62)
    assert [message["id"] for message in post.arrived()] == [second.id]
