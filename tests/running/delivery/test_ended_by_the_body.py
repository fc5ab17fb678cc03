"""A body that sends COMMIT or ROLLBACK in a transaction of ours is told so, and nothing is completed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections

from django_idempotent_tasks import PermanentError
from django_idempotent_tasks.states import State
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

Work = Callable[[], None]


def in_complete(task: Any, work: Work) -> None:
    with task.idempotency.complete():
        work()


def in_a_step(task: Any, work: Work) -> None:
    task.idempotency.step("write", work)


@pytest.mark.parametrize("word", ["ROLLBACK", "COMMIT"])
@pytest.mark.parametrize("later", [True, False], ids=["writes after it", "writes nothing after it"])
@pytest.mark.parametrize("place", [in_complete, in_a_step])
def test_a_transaction_that_the_body_ends_by_hand_completes_nothing(
    till: Till, shop: Counter, place: Callable[[Any, Work], None], later: bool, word: str
) -> None:
    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> int:
        def work() -> None:
            shop.write(note="before")
            with connections[shop.alias].cursor() as cursor:
                cursor.execute(word)
            if later:
                shop.write(note="after")

        place(self, work)
        return order

    end = till.deliver(sell, 7)
    assert isinstance(end.error, PermanentError)
    assert "has sent COMMIT or ROLLBACK" in str(end.error)
    assert (shop.state, shop.effects) == (State.FAILED, ["before"] if word == "COMMIT" else [])


@pytest.mark.parametrize("place", [in_complete, in_a_step])
def test_savepoints_and_errors_that_the_body_catches_end_no_transaction(
    till: Till, shop: Counter, place: Callable[[Any, Work], None]
) -> None:
    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> int:
        def work() -> None:
            with connections[shop.alias].cursor() as cursor:
                cursor.execute("SAVEPOINT own")
                shop.write(note="undone")
                cursor.execute("ROLLBACK TO SAVEPOINT own")
            shop.write(note="kept")

        place(self, work)
        return order

    assert till.deliver(sell, 7).result is (None if place is in_complete else 7)
    assert (shop.state, shop.effects) == (State.SUCCEEDED, ["kept"])
