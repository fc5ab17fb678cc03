"""What is part of an atomic delivery's transaction, and what becomes of it when its COMMIT is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import IntegrityError, connections, transaction

from django_idempotent_tasks.states import State
from tests.sample.models import Effect
from tests.support.deliveries import ALIASES, APPS, need_postgresql
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

PARENT = "CREATE TABLE shop_parent (id integer PRIMARY KEY)"
CHILD = "CREATE TABLE shop_child (id integer REFERENCES shop_parent (id) DEFERRABLE INITIALLY DEFERRED)"


@pytest.fixture
def _deferred(alias: str) -> Iterator[None]:
    """A constraint that the database looks at in the COMMIT."""
    with connections[alias].cursor() as cursor:
        cursor.execute(PARENT)
        cursor.execute(CHILD)
    yield
    with connections[alias].cursor() as cursor:
        cursor.execute("DROP TABLE shop_child")
        cursor.execute("DROP TABLE shop_parent")


@pytest.mark.usefixtures("_deferred")
@pytest.mark.parametrize("redelivered", [False, True])
@pytest.mark.parametrize("returns", [None, {"ok": 1}], ids=["no result", "a result"])
def test_a_commit_that_is_refused_is_a_failure_and_nothing_is_written(
    till: Till, shop: Counter, returns: Any, *, redelivered: bool
) -> None:
    hooks: list[int] = []

    @till.guarded()
    def sell(self: Any, order: int) -> Any:
        shop.sell(self)
        transaction.on_commit(lambda: hooks.append(1), using=shop.alias)
        with connections[shop.alias].cursor() as cursor:
            cursor.execute("INSERT INTO shop_child VALUES (%s)", [order])
            if shop.runs > 1:
                cursor.execute("INSERT INTO shop_parent VALUES (%s)", [order])
        return returns

    assert isinstance(till.deliver(sell, 7, redelivered=redelivered).error, IntegrityError)
    assert (shop.state, shop.row.crashes, shop.effects, hooks) == (State.FAILED, 0, [], [])
    assert "IntegrityError" in (shop.row.result or "")

    assert till.deliver(sell, 7, id="B").result == returns
    assert (shop.state, len(shop.effects), hooks) == (State.SUCCEEDED, 1, [1])


@pytest.mark.usefixtures("_deferred")
def test_a_commit_that_is_refused_is_retried_where_the_task_says_so(till: Till, shop: Counter) -> None:
    @till.guarded(transient_errors=(IntegrityError,), max_retries=1)
    def sell(self: Any, order: int) -> None:
        shop.sell(self)
        with connections[shop.alias].cursor() as cursor:
            cursor.execute("INSERT INTO shop_child VALUES (%s)", [order])

    assert till.deliver(sell, 7).is_retried
    assert shop.state == State.RETRY
    assert isinstance(till.deliver_sent(sell).error, IntegrityError)
    assert (shop.state, shop.runs, shop.effects, till.sent) == (State.FAILED, 2, [], [])


def test_what_is_written_to_another_database_is_not_part_of_it(till: Till, shop: Counter) -> None:
    need_postgresql()
    other = Counter(next(alias for alias in ALIASES if alias != shop.alias))

    @till.guarded(on_failed="rerun")
    def sell(self: Any, order: int) -> int:
        shop.sell(self)
        other.write(note=f"run {shop.runs}")
        if shop.runs == 1:
            raise ValueError("no")
        return order

    till.deliver(sell, 7)
    assert (shop.effects, other.effects) == ([], ["run 1"])
    assert till.deliver(sell, 7, id="B").result == 7
    assert (len(shop.effects), other.effects) == (1, ["run 1", "run 2"])


def test_the_transaction_is_on_the_ledgers_database_and_on_no_other(till: Till, shop: Counter) -> None:
    blocks: dict[str, bool] = {}

    @till.guarded()
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        blocks.update({alias: connections[alias].in_atomic_block for alias in ALIASES})

    till.deliver(sell, 7)
    assert blocks == {alias: alias == shop.alias for alias in ALIASES}
    assert Effect.objects.count() == 0
