"""``get_key`` finds the row that such a call would use."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from django_idempotent_tasks import ConfigurationError, InvalidKey, get_key
from tests.support.post import Post, only_row

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"])


def test_by_the_arguments_however_they_are_given(post: Post) -> None:
    charge = post.task()
    charge.delay(7, "9.90")
    for args, kwargs in [((7,), None), ((), {"order_id": 7}), ((7,), {"amount": "other"})]:
        assert get_key(charge, args, kwargs) == only_row()
    assert get_key(charge, (8,)) is None


def test_by_the_stated_key_and_scope(post: Post) -> None:
    charge = post.task()
    charge.apply_async((7,), idempotency_key="evt", scope="tenant")
    assert get_key(charge, idempotency_key="evt", scope="tenant") == only_row()
    assert get_key(charge, (7,), idempotency_key="evt", scope="tenant") == only_row()
    assert get_key(charge, idempotency_key="evt") is None
    assert get_key(charge, (7,)) is None


def test_by_arguments_the_scope_comes_from_the_task(post: Post) -> None:
    charge = post.task(ship_for, key="order_id", scope="tenant")
    charge.delay(7, "a")
    assert get_key(charge, (7, "a")) == only_row()
    assert get_key(charge, (7, "b")) is None


def ship_for(order_id: int, tenant: str) -> None:
    """Not run here."""


def test_a_task_that_runs_once_is_found_without_arguments(post: Post) -> None:
    def once() -> None:
        """Not run here."""

    task = post.task(once, key=())
    task.delay()
    assert get_key(task) == only_row()


class Order(BaseModel):
    number: int


def test_of_a_pydantic_task_by_its_models(post: Post) -> None:
    def ship(order: Order) -> None:
        """Not run here."""

    task = post.task(ship, pydantic=True, key="order")
    task.delay(Order(number=7))
    assert get_key(task, (Order(number=7),)) == only_row()
    assert get_key(task, (), {"order": {"number": 7}}) == only_row()


def test_a_key_that_cannot_be_is_refused_as_when_sending(post: Post) -> None:
    with pytest.raises(InvalidKey):
        get_key(post.task(), idempotency_key="")


def test_of_a_task_with_a_wrong_option_it_says_which(post: Post) -> None:
    with pytest.raises(ConfigurationError, match="lease"):
        get_key(post.task(lease=0), (7,))
