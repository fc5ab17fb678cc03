"""Many calls of which one cannot be accepted: its place is named, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from celery import chain
from django.db import connection, transaction
from django.db.transaction import TransactionManagementError
from django.test import override_settings

from django_idempotent_tasks import (
    ConfigurationError,
    InvalidKey,
    KeyReused,
)
from django_idempotent_tasks.exceptions import PayloadTooLarge
from django_idempotent_tasks.models import IdempotencyKey
from tests.sending.test_submit_many import calls, numbers_of
from tests.support.post import Post

pytestmark = pytest.mark.django_db(
    transaction=True, databases=["default", "sqlite"], available_apps=["django_idempotent_tasks"]
)


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


@pytest.mark.parametrize("is_inside", [False, True])
def test_a_transaction_of_the_generator_is_ended_with_an_error_before_the_callers(
    post: Post, monkeypatch: pytest.MonkeyPatch, is_inside: bool
) -> None:
    monkeypatch.setattr("django_idempotent_tasks.sending.many.BITE", 2)
    charge = post.task()

    def read() -> Iterator[dict[str, Any]]:
        yield from calls(1, 2)
        with transaction.atomic():
            yield from [*calls(3), {"args": [4], "countdown": "soon"}, *calls(5)]

    with transaction.atomic() if is_inside else nullcontext():
        try:
            charge.submit_many(read())
        except ConfigurationError:  # the error holds the generator
            assert connection.in_atomic_block == is_inside
            charge.submit(args=[100])
    assert IdempotencyKey.objects.get().key_text == "order_id=100"
    assert numbers_of(post.arrived()) == [100]


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
