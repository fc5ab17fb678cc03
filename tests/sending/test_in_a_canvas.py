"""Inside a canvas nothing is refused at send: others wait for each of its messages."""

from __future__ import annotations

from typing import Any

import pytest
from celery import chain, chord, group
from django.db import transaction

from django_idempotent_tasks.models import DuplicateAttempt, IdempotencyKey
from tests.sending.conftest import Post, rolled_back

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"])


def links(charge: Any) -> dict[str, Any]:
    return {"link": charge.si(99)}


@pytest.mark.parametrize("on_duplicate", ["skip", "replay", "raise"])
def test_a_duplicate_with_a_callback_is_sent_as_a_call_that_was_not_accepted(
    post: Post, on_duplicate: str
) -> None:
    charge = post.task(on_duplicate=on_duplicate)
    first = charge.delay(7)
    second = charge.apply_async((7,), **links(charge))
    assert second.id != first.id
    reserved, sent = post.arrived()
    assert (reserved["id"], sent["id"]) == (first.id, second.id)
    assert reserved["idempotency"]["reserved"] is True
    assert "reserved" not in sent["idempotency"]
    assert sent["embed"]["callbacks"][0]["args"] == [99]
    assert not DuplicateAttempt.objects.exists(), "it is decided, and recorded, where it arrives"


def test_another_payload_in_a_canvas_is_sent_and_refused_where_it_arrives(post: Post) -> None:
    charge = post.task()
    charge.apply_async((7,), idempotency_key="evt")
    charge.apply_async((8,), idempotency_key="evt", **links(charge))
    assert [message["args"] for message in post.arrived()] == [[7], [8]]
    assert IdempotencyKey.objects.count() == 1


def test_a_duplicate_in_a_canvas_waits_for_the_commit_too(post: Post) -> None:
    charge = post.task()
    with transaction.atomic():
        charge.delay(7)
        charge.apply_async((7,), **links(charge))
        assert post.arrived() == []
    assert len(post.arrived()) == 2


def test_a_rollback_takes_a_duplicate_in_a_canvas_with_it(post: Post) -> None:
    charge = post.task()
    with rolled_back():
        group(charge.si(7), charge.si(7)).apply_async()
    assert post.arrived() == [], "it would run as if the first call had never been"


def test_every_member_of_a_group_is_sent(post: Post) -> None:
    charge = post.task()
    result: Any = group(charge.si(7), charge.si(8), charge.si(7)).apply_async()
    assert {message["id"] for message in post.arrived()} == {child.id for child in result.children}
    assert IdempotencyKey.objects.count() == 2


def test_every_member_of_a_chord_is_sent_after_the_commit(post: Post) -> None:
    post.app.conf.update(result_backend="cache+memory://")
    charge = post.task()
    with transaction.atomic():
        chord([charge.si(7), charge.si(7)], charge.si(9)).apply_async()
        assert [message for message in post.arrived() if message["task"] == charge.name] == []
    assert [m["args"] for m in post.arrived() if m["task"] == charge.name] == [[7], [7]]


def test_the_head_of_a_chain_that_was_accepted_before_is_sent_with_its_rest(post: Post) -> None:
    charge = post.task(on_duplicate="raise")
    charge.delay(7)
    post.arrived()
    chain(charge.si(7), charge.si(8)).apply_async()
    (message,) = post.arrived()
    assert message["embed"]["chain"][0]["args"] == [8]


def test_submit_refuses_and_records_a_duplicate_even_with_a_callback(post: Post) -> None:
    charge = post.task()
    first = charge.delay(7)
    second = charge.submit((7,), **links(charge))
    assert not second.created
    assert second.result is not None
    assert second.result.id == first.id
    assert len(post.arrived()) == 1
    assert DuplicateAttempt.objects.get().reason == "in_progress"
