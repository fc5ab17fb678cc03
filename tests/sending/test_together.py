"""Calls that are reserved in one transaction go out in one round trip, in the order of the commit's hooks."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

import pytest
from django.db import connections, transaction
from django.test import TestCase
from redis.client import Pipeline

from django_idempotent_tasks.messages.relay import relay
from django_idempotent_tasks.models import IdempotencyKey
from tests.support.post import Post, no_broker, rolled_back, silent_broker

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"])


def numbers(post: Post) -> list[int]:
    return [message["args"][0] for message in post.arrived()]


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The round trips to the broker that send messages, each with its commands."""
    found: list[int] = []
    execute = Pipeline.execute

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        found.append(len(self))
        return execute(self, *args, **options)

    monkeypatch.setattr(Pipeline, "execute", counted)
    return found


@pytest.fixture
def warm(post: Post, trips: list[int]) -> Any:
    """A task whose messages are known on a kept connection."""
    charge = post.task()
    charge.delay(-1)
    charge.delay(-2)
    post.arrived()
    trips.clear()
    return charge


def test_calls_of_one_transaction_go_out_in_one_round_trip(post: Post, warm: Any, trips: list[int]) -> None:
    with transaction.atomic():
        for number in range(5):
            warm.delay(number)
        assert trips == []
    assert trips == [1]
    assert numbers(post) == [0, 1, 2, 3, 4]


def test_lists_go_out_on_the_kept_connection(post: Post, warm: Any, trips: list[int]) -> None:
    kept = [connection for _, connection, _ in relay._idle]
    for first in (0, 2):
        warm.submit_many({"args": [number]} for number in (first, first + 1))
    assert (trips, [connection for _, connection, _ in relay._idle]) == ([1, 1], kept)
    assert numbers(post) == [0, 1, 2, 3]


def test_what_the_project_does_between_two_calls_happens_between_them(post: Post, warm: Any) -> None:
    seen: list[list[int]] = []
    with transaction.atomic():
        warm.delay(0)
        warm.delay(1)
        transaction.on_commit(lambda: seen.append(numbers(post)))
        warm.delay(2)
    assert (seen, numbers(post)) == ([[0, 1]], [2])


def test_a_savepoint_that_is_rolled_back_takes_its_calls_with_it(post: Post, warm: Any) -> None:
    with transaction.atomic():
        warm.delay(0)
        with transaction.atomic():
            warm.delay(1)
        with rolled_back():
            warm.delay(2)
    assert numbers(post) == [0, 1]
    with transaction.atomic():
        with rolled_back():
            warm.delay(3)
        warm.delay(4)
        warm.delay(5)
    assert numbers(post) == [4, 5]
    assert IdempotencyKey.objects.filter(key_text__in=["order_id=2", "order_id=3"]).count() == 0


@pytest.mark.parametrize("as_a_list", [False, True])
def test_a_savepoint_by_hand_that_is_rolled_back_takes_its_calls_with_it(
    post: Post, warm: Any, *, as_a_list: bool
) -> None:
    with transaction.atomic():
        warm.delay(0)
        savepoint = transaction.savepoint()
        with transaction.atomic():
            warm.submit_many([{"args": [1]}]) if as_a_list else warm.delay(1)
        transaction.savepoint_rollback(savepoint)
        warm.delay(1)
        savepoint = transaction.savepoint()
        warm.delay(2)
        transaction.savepoint_commit(savepoint)
        transaction.savepoint_rollback(transaction.savepoint())
    assert numbers(post) == [0, 1, 2]


def test_what_a_transaction_has_taken_back_is_not_sent_by_the_next_call(post: Post, warm: Any) -> None:
    with rolled_back():
        warm.delay(0)
        warm.delay(1)
    warm.delay(2)
    assert numbers(post) == [2]
    with suppress(Exception), transaction.atomic():
        warm.delay(3)
        connections["default"].connection.close()  # cut: the transaction cannot commit
    warm.delay(4)
    assert numbers(post) == [4]


def test_what_a_hook_of_the_project_has_taken_back_is_not_sent_by_the_hook_after_it(
    post: Post, warm: Any
) -> None:
    def attempt() -> None:
        with rolled_back():
            warm.delay(1)

    with transaction.atomic():
        warm.delay(0)
        transaction.on_commit(attempt)
        warm.delay(2)
        warm.delay(3)
    assert numbers(post) == [0, 2, 3]


def test_hooks_that_a_test_runs_by_itself_send_each_call_once(post: Post, warm: Any) -> None:
    with rolled_back(), TestCase.captureOnCommitCallbacks(execute=True):
        warm.delay(0)
        warm.delay(1)
    assert numbers(post) == [0, 1]


def test_without_a_broker_all_are_left_to_the_sweeper(post: Post) -> None:
    charge = post.task()
    with no_broker(post), transaction.atomic():
        for number in range(3):
            charge.delay(number)
    assert {row.sends for row in IdempotencyKey.objects.all()} == {-1}
    post.sweep(1)
    assert sorted(numbers(post)) == [0, 1, 2]


def test_a_silent_broker_keeps_the_caller_once_for_all_of_them(post: Post) -> None:
    charge = post.task()
    with silent_broker(post) as spent:
        with transaction.atomic():
            for number in range(5):
                charge.delay(number)
        assert spent() < 8
    assert {row.sends for row in IdempotencyKey.objects.all()} == {-1}


@pytest.mark.parametrize("as_a_list", [False, True])
def test_a_connection_that_the_broker_has_closed_costs_no_call(
    post: Post, warm: Any, *, as_a_list: bool
) -> None:
    for _, connection, _ in relay._idle:
        channel: Any = connection.default_channel
        for line in channel.client.connection_pool._available_connections:
            line._sock.shutdown(socket.SHUT_RDWR)
    with transaction.atomic():
        if as_a_list:
            warm.submit_many({"args": [number]} for number in range(2))
        else:
            warm.delay(0)
            warm.delay(1)
    assert sorted(set(numbers(post))) == [0, 1]
    assert {row.sends for row in IdempotencyKey.objects.all()} == {0}
