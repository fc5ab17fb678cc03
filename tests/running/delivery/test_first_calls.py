"""A call of a new key: run once, with claim, effects and completion in one transaction."""

from __future__ import annotations

from typing import Any

import pytest

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.states import Reason, State
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


def test_a_first_call_leaves_its_effect_and_a_completed_key(till: Till, shop: Counter) -> None:
    task = till.seller(shop)

    assert till.deliver(task, 7).result == {"order": 7}
    row = shop.row
    assert (row.state, row.reason, row.result) == (State.SUCCEEDED, Reason.DONE, '{"order": 7}')
    assert (row.token, row.attempts, row.crashes, row.generation) == (1, 1, 0, 1)
    assert (row.task_id, row.runner_task_id, row.message, row.lease_seconds) == ("A", None, None, 0)
    assert row.created_at == row.started_at == row.finished_at
    assert shop.effects == ["sold"]
    assert till.sent == []


def test_nobody_sees_anything_before_the_commit(till: Till, shop: Counter) -> None:
    seen: list[object] = []

    @till.guarded()
    def look(self: Any, order: int) -> None:
        shop.sell(self)
        identity = self.idempotency_identity((order,))
        with get_store().side_connection() as other:
            seen.append(other.read(identity.digest, task_id="A"))
            with other.connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM sample_effect")
                seen.append(cursor.fetchone()[0])

    assert till.deliver(look, 7).result is None
    assert seen == [None, 0]
    assert (shop.state, shop.effects) == (State.SUCCEEDED, [""])


def test_keys_are_kept_for_their_retention_and_answered_for_the_longer_window(
    till: Till, shop: Counter
) -> None:
    till.deliver(till.seller(shop, retention=60), 7)
    row = shop.row
    assert row.open_at is not None
    assert row.finished_at is not None
    assert row.due_at is not None
    assert (row.open_at - row.finished_at).total_seconds() == pytest.approx(60, abs=0.01)
    assert (row.due_at - row.finished_at).total_seconds() == pytest.approx(24 * 3600, abs=0.01)


@pytest.mark.parametrize(
    ("value", "options"),
    [
        pytest.param({"order": 7}, {"store_result": False}, id="not to be stored"),
        pytest.param(object(), {}, id="not JSON"),
        pytest.param("x" * 70_000, {}, id="too large"),
    ],
)
def test_a_result_that_is_not_kept_is_returned_once_and_said_to_be_missing_later(
    till: Till, shop: Counter, value: object, options: dict[str, object]
) -> None:
    @till.guarded(on_duplicate="replay", **options)
    def sell(self: Any, order: int) -> object:  # noqa: ARG001
        shop.sell(self)
        return value

    assert till.deliver(sell, 7).result is value
    assert (shop.row.result, shop.row.reason) == (None, Reason.RESULT_NOT_STORED)
    for id_ in ("A", "B"):
        assert type(till.deliver(sell, 7, id=id_).error).__name__ == "ResultNotStored"
    assert (shop.state, shop.runs) == (State.SUCCEEDED, 1)


def test_no_result_is_a_result_that_is_replayed(till: Till, shop: Counter) -> None:
    @till.guarded(on_duplicate="replay")
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        shop.sell(self)

    ends = [till.deliver(sell, 7, id=id_) for id_ in ("A", "A", "B")]
    assert [end.result for end in ends] == [None] * 3
    assert (shop.row.reason, shop.runs) == (Reason.DONE, 1)


def test_a_task_without_stored_results_that_returns_nothing_is_replayed_as_well(
    till: Till, shop: Counter
) -> None:
    @till.guarded(store_result=False)
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        shop.sell(self)

    assert [till.deliver(sell, 7).result for _ in range(2)] == [None, None]
    assert (shop.row.reason, shop.runs) == (Reason.DONE, 1)
