"""``external()`` inside a transaction: the ledger is told of it outside, or the call is not made."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.db import connections, transaction

from django_idempotent_tasks import OuterTransaction
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.states import State
from tests.running.connections.acts import Act, by_hand
from tests.running.delivery.charging import Deed, Unknown, charge
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


def in_a_transaction(made: list[bool]) -> Deed:
    """Make the external call inside ``atomic()``, and note what others see of it meanwhile."""

    def deed(task: Any, shop: Counter) -> None:
        with transaction.atomic(using=shop.alias):
            shop.write("note")
            with task.idempotency.external(), get_store(shop.alias).side_connection() as side:
                entry = side.read(shop.row.digest, task_id="A")
                made.append(entry is not None and entry.in_external)
            raise Unknown

    return deed


def test_an_external_call_is_told_outside_the_transaction_that_it_is_made_in(
    till: Till, shop: Counter
) -> None:
    made: list[bool] = []
    end = till.deliver(charge(till, shop, in_a_transaction(made)), 7)
    assert shop.effects == []
    assert connections[shop.alias].in_atomic_block is False
    if shop.alias == "sqlite":  # one writer: it cannot be told, and is not made
        assert isinstance(end.error, OuterTransaction)
        assert (made, shop.state) == ([], State.FAILED)
    else:
        assert (made, shop.state) == ([True], State.REVIEW)


@by_hand
def test_an_external_call_is_told_outside_a_transaction_that_the_body_has_begun_by_hand(
    till: Till, shop: Counter, act: Act
) -> None:
    made: list[bool] = []

    def pay(task: Any, shop: Counter) -> None:
        act(shop.alias)
        shop.write(note="not committed yet")
        with task.idempotency.external(), get_store(shop.alias).side_connection() as side:
            entry = side.read(UUID(shop.row.digest.hex), task_id="A")
            made.append(entry is not None and entry.in_external)
        with connections[shop.alias].cursor() as cursor:
            cursor.execute("COMMIT")

    end = till.deliver(charge(till, shop, pay), 7)
    if shop.alias == "sqlite":
        assert isinstance(end.error, OuterTransaction)
        assert (made, shop.state) == ([], State.FAILED)
    else:
        assert (made, shop.effects) == ([True], ["not committed yet"])
