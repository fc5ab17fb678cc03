"""Another task id under a key that is taken: refused, or answered with the first call's value."""

from __future__ import annotations

from typing import Any

import pytest

from django_idempotent_tasks import DuplicateTask, KeyReused, ManualReview, PermanentError, RecordedError
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.states import State
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

LINK = {"task": "elsewhere", "args": [], "kwargs": {}, "options": {"task_id": "L"}, "immutable": False}
CANVAS: dict[str, dict[str, Any]] = {
    "a link": {"callbacks": [LINK]},
    "an error link": {"errbacks": [LINK]},
    "a chain": {"chain": [LINK]},
    "a group": {"group": "G"},
}


def failing(till: Till, shop: Counter, error: Exception, **options: Any) -> Any:
    """A task that fails in its first run only."""

    @till.guarded(**options)
    def sell(self: Any, order: int) -> int:
        shop.sell(self)
        if shop.runs == 1:
            raise error
        return order

    return sell


def test_a_duplicate_is_told_that_it_was_skipped(till: Till, shop: Counter) -> None:
    task = till.seller(shop)
    till.deliver(task, 7)
    before = shop.row

    end = till.deliver(task, 7, id="B")
    assert end.result == {
        "status": "skipped",
        "reason": "already_completed",
        "key": "order=7",
        "task_id": "A",
    }
    assert (shop.runs, shop.refusals) == (1, ["already_completed"])
    assert vars(shop.row) | {"_state": None} == vars(before) | {"_state": None}


def test_a_duplicate_gets_the_value_where_replays_are_asked_for(till: Till, shop: Counter) -> None:
    task = till.seller(shop, on_duplicate="replay")
    assert till.deliver(task, 7).result == till.deliver(task, 7, id="B").result == {"order": 7}
    assert (shop.runs, shop.refusals) == (1, ["already_completed"])


def test_a_duplicate_is_an_error_where_that_is_asked_for(till: Till, shop: Counter) -> None:
    task = till.seller(shop, on_duplicate="raise")
    till.deliver(task, 7)
    error = till.deliver(task, 7, id="B").error
    assert isinstance(error, DuplicateTask)
    assert (error.reason, error.task_id) == ("already_completed", "A")
    assert (shop.runs, shop.refusals) == (1, ["already_completed"])


@pytest.mark.parametrize("policy", ["skip", "raise"])
@pytest.mark.parametrize("part", CANVAS)
def test_a_duplicate_in_a_canvas_gets_the_value_whatever_the_policy(
    till: Till, shop: Counter, part: str, policy: str
) -> None:
    task = till.seller(shop, on_duplicate=policy)
    till.deliver(task, 7)

    assert till.deliver(task, 7, id="B", **CANVAS[part]).result == {"order": 7}
    assert [sent.args for sent in till.sent] == ([[{"order": 7}]] if part in {"a link", "a chain"} else [])
    assert shop.runs == 1


def test_another_payload_under_the_key_is_refused_and_changes_nothing(till: Till, shop: Counter) -> None:
    task = till.seller(shop)
    for id_, order in (("A", 7), ("B", 8)):
        task.apply_async((order,), task_id=id_, idempotency_key="evt_1")
    till.deliver_sent(task)
    before = shop.row

    assert isinstance(till.deliver_sent(task).error, KeyReused)
    assert vars(shop.row) | {"_state": None} == vars(before) | {"_state": None}
    assert (shop.runs, shop.refusals) == (1, [])


def test_a_call_that_waits_to_be_run_keeps_its_key_from_others(till: Till, shop: Counter) -> None:
    task = till.seller(shop)
    assert task.submit((7,), task_id="A").created

    assert till.deliver(task, 7, id="B").result["reason"] == "in_progress"
    assert (shop.state, shop.runs) == (State.PENDING, 0)
    assert till.deliver_sent(task).result == {"order": 7}
    row = shop.row
    assert (row.state, row.task_id, row.token, row.attempts, row.message) == (7, "A", 1, 1, None)


@pytest.mark.parametrize("mode", ["atomic", "leased"])
def test_in_a_run_of_duplicates_each_kind_of_call_gets_what_it_got_before(
    till: Till, shop: Counter, mode: str
) -> None:
    task = till.seller(shop, mode=mode)
    for id_ in ("A", "B", "C"):
        till.deliver(task, 7, id=id_)
    assert till.deliver(task, 7, id="D").result["task_id"] == "A"
    assert till.deliver(task, 7).result == {"order": 7}  # the first call, once more
    till.deliver(task, 7, id="E")
    assert task.submit((8,), task_id="F").created
    assert till.deliver(task, 8, id="G").result["reason"] == "in_progress"
    assert till.deliver(task, 8, id="H", callbacks=[LINK]).is_ignored  # it comes back for the value
    assert till.deliver(task, 9, id="I").result == {"order": 9}
    assert (shop.runs, shop.refusals) == (2, [*["already_completed"] * 4, "in_progress"])


def test_a_failed_key_is_run_again_for_a_new_call(till: Till, shop: Counter) -> None:
    task = failing(till, shop, ValueError("no"), retention=60)
    till.deliver(task, 7)
    assert (shop.state, shop.effects) == (State.FAILED, [])

    assert till.deliver(task, 7, id="B").result == 7
    row = shop.row
    assert (row.state, row.task_id, row.attempts, row.generation, row.result) == (7, "B", 1, 1, "7")
    assert (row.category, row.message) == (None, None)
    assert shop.answered == ["A"]
    assert isinstance(till.deliver(task, 7).error, RecordedError)  # a late copy gets its own end
    assert shop.runs == 2


@pytest.mark.parametrize(
    ("error", "options", "reason"),
    [
        pytest.param(ValueError("no"), {"on_failed": "block"}, "failed", id="told to block"),
        pytest.param(PermanentError("no"), {}, "failed", id="permanent"),
        pytest.param(ManualReview("who?"), {}, "in_review", id="review"),
    ],
)
def test_a_blocked_key_refuses_new_calls(
    till: Till, shop: Counter, error: Exception, options: dict[str, Any], reason: str
) -> None:
    task = failing(till, shop, error, **options)
    till.deliver(task, 7)
    before = shop.row

    assert till.deliver(task, 7, id="B").result["reason"] == reason
    canvas = till.deliver(task, 7, id="C", group="G").error
    assert isinstance(canvas, RecordedError)
    assert str(error) in str(canvas)
    assert vars(shop.row) | {"_state": None} == vars(before) | {"_state": None}
    assert (shop.runs, shop.refusals) == (1, [reason, reason])


def test_a_cancelled_key_is_run_for_a_new_call_and_not_for_the_cancelled_one(
    till: Till, shop: Counter
) -> None:
    task = till.seller(shop)
    task.submit((7,), task_id="A")
    assert task.cancel(task_id="A") == "cancelled"

    assert till.deliver_sent(task).is_ignored
    assert (shop.state, shop.runs) == (State.CANCELLED, 0)
    assert till.deliver(task, 7, id="B").result == {"order": 7}
    assert (shop.state, shop.row.task_id, shop.runs) == (State.SUCCEEDED, "B", 1)


def test_past_its_retention_a_key_is_new_and_the_replaced_call_keeps_its_answer(
    till: Till, shop: Counter
) -> None:
    task = till.seller(shop, retention=60)
    till.deliver(task, 7)
    with shifted(61):
        assert till.deliver(task, 7, "again", id="B").result == {"order": 7}
        assert till.deliver(task, 7).result == {"order": 7}  # the first call's copy
    row = shop.row
    assert (row.task_id, row.token, row.attempts, row.generation) == ("B", 2, 1, 2)
    assert (shop.answered, shop.effects) == (["A"], ["sold", "again"])
    assert len({start["downstream"] for start in shop.starts}) == 2


def test_without_a_retention_a_key_is_unique_only_while_unfinished(till: Till, shop: Counter) -> None:
    task = till.seller(shop, retention=0)
    for id_ in ("A", "A", "B", "B", "A"):
        assert till.deliver(task, 7, id=id_).result == {"order": 7}
    assert (shop.runs, shop.row.task_id, shop.answered) == (2, "B", ["A"])
