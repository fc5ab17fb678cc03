"""Shadow mode: every body runs as under plain Celery, and the ledger notes what the guard would refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from celery.exceptions import Ignore, Reject
from django.db import DatabaseError, transaction
from django.db.models import F

from django_idempotent_tasks import ConfigurationError, PermanentError, current
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.states import Reason, State
from tests.running.delivery.shadowed import SHADOW, places
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


@pytest.mark.parametrize("mode", ["leased", "atomic"])
def test_a_duplicate_runs_gets_its_own_value_and_is_noted(
    till: Till, shop: Counter, told: list[str], mode: str
) -> None:
    task = till.seller(shop, enforce=False, mode=mode)
    assert till.deliver(task, 7).result == {"order": 7}
    before = vars(shop.row) | {"_state": None}
    assert till.deliver(task, 7, id="B").result == {"order": 7}
    assert (shop.runs, shop.effects) == (2, ["sold", "sold"])
    assert places(shop.alias) == [("shadow", "already_completed")]
    assert told == ["already_completed"]
    assert vars(shop.row) | {"_state": None} == before
    assert (shop.row.state, shop.row.task_id) == (State.SUCCEEDED, "A")


def test_a_duplicate_that_comes_while_the_first_runs_leaves_its_claim_alone(
    till: Till, shop: Counter, told: list[str]
) -> None:
    @till.guarded(**SHADOW)
    def sell(self: Any, order: int) -> str:
        shop.sell(self)
        if self.request.id == "A":
            assert till.deliver(sell, order, id="B").result == "B"
            assert (shop.row.state, shop.row.task_id) == (State.RUNNING, "A")
        return str(self.request.id)

    assert till.deliver(sell, 7).result == "A"
    assert told == ["in_progress"]
    assert (shop.row.state, shop.row.token, shop.row.result) == (State.SUCCEEDED, 1, '"A"')
    assert [(each["token"], each["attempt"]) for each in shop.starts] == [(1, 1), (0, 1)]
    assert len({each["downstream"] for each in shop.starts}) == 1


def test_a_redelivered_call_runs_again_and_is_noted(till: Till, shop: Counter, told: list[str]) -> None:
    task = till.seller(shop, **SHADOW)
    till.deliver(task, 7)
    assert till.deliver(task, 7, redelivered=True).result == {"order": 7}
    assert (shop.runs, told, places(shop.alias)) == (2, ["redelivered"], [("shadow", "redelivered")])


def test_a_copy_of_a_call_whose_worker_died_runs_at_once_and_is_no_duplicate(
    till: Till, shop: Counter, told: list[str]
) -> None:
    task = till.seller(shop, **SHADOW)
    till.deliver(task, 7)
    shop.put(state=State.RUNNING, owner="gone:1:x", finished_at=None)
    assert till.deliver(task, 7, redelivered=True).result == {"order": 7}
    assert (shop.runs, told, shop.state) == (2, [], State.RUNNING)


def test_what_celery_loses_is_sent_by_nobody_and_its_key_goes_to_the_next_call(
    till: Till, shop: Counter, told: list[str]
) -> None:
    task = till.seller(shop, **SHADOW)
    till.deliver(task, 7)
    shop.put(state=State.RUNNING, owner="gone:1:x", finished_at=None, due_at=F("open_at"))
    with shifted(8 * 24 * 3600):
        (row,) = get_store().sweep(bite=9, republish=300)
        assert (row.state, row.publish, row.size) == (State.RUNNING, False, None)
        assert till.deliver(task, 7, id="B").result == {"order": 7}
    assert (told, shop.state, shop.row.runner_task_id) == ([], State.SUCCEEDED, "B")


def test_another_payload_under_a_key_runs_and_is_noted(till: Till, shop: Counter, told: list[str]) -> None:
    task = till.seller(shop, fingerprint=("order", "note"), **SHADOW)
    till.deliver(task, 7)
    till.deliver(task, 7, id="B", kwargs={"note": "other"})
    assert (shop.effects, told) == (["sold", "other"], ["key_reused"])


def test_a_call_without_a_key_runs_and_is_counted_once(till: Till, shop: Counter, told: list[str]) -> None:
    def key(order: int) -> str:
        raise LookupError(order)

    @till.guarded(key=key, **SHADOW)
    def sell(self: Any, order: int) -> int:
        shop.write(self.idempotency.key, note=self.idempotency.downstream_key("charge"))
        return order

    sell.apply_async((7,), task_id="A")
    assert till.deliver_sent(sell).result == 7
    assert (len(shop.effects), told, shop.state) == (1, ["invalid_key"], None)
    assert till.deliver(sell, 8, id="B").result == 8
    assert told == ["invalid_key"] * 2


def test_a_wrong_key_of_one_call_is_sent_and_counted(till: Till, shop: Counter, told: list[str]) -> None:
    task = till.seller(shop, **SHADOW)
    task.apply_async((7,), idempotency_key=float("nan"), task_id="A")
    assert till.deliver_sent(task).result == {"order": 7}
    assert (told, shop.state) == (["invalid_key"], None)


def test_a_key_given_per_call_is_the_one_that_is_noted(till: Till, shop: Counter, told: list[str]) -> None:
    task = till.seller(shop, **SHADOW)
    for order, name in ((7, "A"), (8, "B")):
        task.apply_async((order,), idempotency_key="evt_1", scope="t", task_id=name)
        till.deliver_sent(task)
    assert (shop.runs, told, shop.row.key_text, shop.row.scope) == (2, ["key_reused"], "evt_1", "t")


def test_sending_writes_nothing_and_submit_names_the_remedy(till: Till, shop: Counter) -> None:
    task = till.seller(shop, **SHADOW)
    first, second = task.delay(7), task.delay(7)
    assert (first.id != second.id, len(till.sent), shop.state) == (True, 2, None)
    assert not hasattr(first, "duplicate")
    with pytest.raises(ConfigurationError, match=r"shadow mode.*delay"):
        task.submit((7,))


def test_a_ledger_that_fails_stops_no_body(
    till: Till, shop: Counter, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = till.seller(shop, **SHADOW)
    asked = []

    def away(*_args: object, **_kwargs: object) -> None:
        asked.append(1)
        raise DatabaseError

    monkeypatch.setattr("django_idempotent_tasks.ledger.ledger.Ledger.claim", away)
    assert till.deliver(task, 7).result == {"order": 7}
    assert till.deliver(task, 8, id="B").result == {"order": 8}
    assert (shop.runs, set(told), len(asked)) == (2, {"store_down"}, 2)  # the second body waits for nothing


def test_an_end_that_cannot_be_written_fails_no_body(
    till: Till, shop: Counter, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_args: object, **_kwargs: object) -> bool:
        raise DatabaseError

    monkeypatch.setattr("django_idempotent_tasks.ledger.ledger.Ledger.complete", away)
    assert till.deliver(till.seller(shop, **SHADOW), 7).result == {"order": 7}
    assert (told, shop.state) == (["store_down"], State.RUNNING)


ENDS: dict[str, tuple[Callable[[], BaseException], State, Reason]] = {
    "an error": (ValueError, State.FAILED, Reason.RETRIES_USED_UP),
    "a permanent error": (lambda: PermanentError("gone"), State.FAILED, Reason.PERMANENT),
    "an error for a person": (LookupError, State.REVIEW, Reason.IN_DOUBT),
    "an expected error": (ArithmeticError, State.FAILED, Reason.EXPECTED),
    "ignore": (Ignore, State.SUCCEEDED, Reason.IGNORED),
    "reject": (Reject, State.FAILED, Reason.PERMANENT),
    "requeue": (lambda: Reject("later", requeue=True), State.RETRY, Reason.RETRY_ASKED),
}


@pytest.mark.parametrize("how", ENDS)
def test_what_a_body_raises_is_noted_by_the_tasks_rules(till: Till, shop: Counter, how: str) -> None:
    make, state, reason = ENDS[how]
    error = make()

    @till.guarded(review_errors=(LookupError,), expected_errors=(ArithmeticError,), **SHADOW)
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        raise error

    assert type(till.deliver(sell, 7).error) is type(error)
    assert (shop.state, Reason(shop.row.reason)) == (state, reason)


def test_the_handle_is_that_of_a_plain_call(till: Till, shop: Counter) -> None:
    seen: dict[str, Any] = {}

    @till.guarded(at_most_once=True, **SHADOW)
    def sell(self: Any, order: int) -> int:
        now = self.idempotency
        seen.update(key=current.key, lost=now.lost, batch=now.batch, step=now.step("plan", int, "3"))
        with now.external():
            now.progress(1, 2)
        with now.complete() as done:
            shop.write(now.key, note="in complete")
            done.result = "not this"
        return order

    assert till.deliver(sell, 7).result == 7
    assert seen == {"key": "order=7", "lost": False, "batch": None, "step": 3}
    assert (shop.effects, shop.row.result) == (["in complete"], "7")


def test_inside_a_callers_transaction_nothing_outlives_its_rollback(
    till: Till, shop: Counter, told: list[str]
) -> None:
    task = till.seller(shop, **SHADOW)
    with transaction.atomic(using=shop.alias):
        for _ in range(2):
            assert task.apply((7,)).get() == {"order": 7}
        assert (shop.runs, len(shop.effects), shop.state) == (2, 2, State.SUCCEEDED)
        transaction.set_rollback(True, using=shop.alias)
    assert (shop.effects, shop.state, told) == ([], None, [])


def test_once_enforced_the_rows_of_the_shadow_are_ordinary_rows(till: Till, shop: Counter) -> None:
    name = till.new_name()
    shadowed = till.seller(shop, name=name, **SHADOW)
    till.deliver(shadowed, 7)
    till.tasks.pop(name)
    enforced = till.seller(shop, name=name, mode="leased")
    end = till.deliver(enforced, 7, id="B")
    assert end.result["reason"] == "already_completed"
    assert (shop.runs, places(shop.alias)) == (1, [("worker", "already_completed")])


def test_acknowledgement_hooks_and_throws_are_celerys(till: Till, shop: Counter) -> None:
    task, guarded = till.seller(shop, **SHADOW), till.seller(shop, mode="leased")
    assert (task.acks_late, task.reject_on_worker_lost) == (False, None)
    assert (guarded.acks_late, guarded.reject_on_worker_lost) == (True, True)


@pytest.mark.parametrize("later", [0, 700_000])
def test_what_would_be_refused_is_what_is_refused(till: Till, shop: Counter, later: int) -> None:
    """The same messages, each to a task that is enforced and to one that is not."""
    enforced, shadowed = till.seller(shop, mode="leased"), till.seller(shop, **SHADOW)
    for task in (enforced, shadowed):
        for order, name in ((1, "A"), (1, "B"), (2, "C"), (1, "D"), (2, "E")):
            till.deliver(task, order, id=name)
        with shifted(later):
            till.deliver(task, 1, id="F")
    reasons = [
        [reason for place, reason in places(shop.alias) if place == each] for each in ("worker", "shadow")
    ]
    assert reasons[0] == reasons[1] == ["already_completed"] * (3 if later else 4)
