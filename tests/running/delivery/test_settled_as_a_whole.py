"""However an atomic body ends, its writes are kept or undone as a whole and its key is settled once."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import pytest
from celery.exceptions import Ignore, Reject, SoftTimeLimitExceeded

from django_idempotent_tasks import (
    ManualReview,
    PermanentError,
    RecordedError,
    TaskExit,
    TaskMemoryError,
    TransientError,
)
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.states import Category, Reason, State
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


class Busy(Exception):
    """Worth a retry."""


def ending(till: Till, shop: Counter, error: BaseException, **options: Any) -> Any:
    """A task that writes an effect and raises."""

    @till.guarded(**options)
    def sell(self: Any, order: int) -> NoReturn:  # noqa: ARG001
        shop.sell(self)
        raise error

    return sell


def test_ignore_keeps_the_writes_and_completes_the_key(till: Till, shop: Counter) -> None:
    task = ending(till, shop, Ignore(), on_duplicate="replay")
    assert till.deliver(task, 7).is_ignored
    assert (shop.state, shop.row.reason, shop.row.result) == (State.SUCCEEDED, Reason.IGNORED, None)
    assert len(shop.effects) == 1

    assert till.deliver(task, 7).is_ignored
    assert till.deliver(task, 7, id="B").is_ignored
    assert shop.runs == 1


def test_a_reject_is_a_failure_and_its_writes_are_undone(till: Till, shop: Counter) -> None:
    end = till.deliver(ending(till, shop, Reject("no", requeue=False)), 7)
    assert isinstance(end.error, Reject)
    assert not end.is_requeued
    assert (shop.state, shop.row.reason, shop.effects) == (State.FAILED, Reason.PERMANENT, [])


def test_a_reject_with_requeue_puts_the_message_back_for_a_second_later(till: Till, shop: Counter) -> None:
    task = ending(till, shop, Reject("later", requeue=True))
    for attempt in (1, 2):
        with shifted(2 * attempt):
            assert till.deliver(task, 7, redelivered=attempt > 1).is_requeued
        row = shop.row
        assert (row.state, row.reason) == (State.RETRY, Reason.RETRY_ASKED)
        assert (row.open_at - row.started_at).total_seconds() == pytest.approx(1, abs=0.5)  # type: ignore[operator]
        assert row.crashes == 0
        assert row.message is not None
    assert (shop.runs, shop.effects) == (2, [])


@pytest.mark.parametrize(
    ("error", "state", "reason", "category"),
    [
        (ValueError("no"), State.FAILED, Reason.RETRIES_USED_UP, Category.RETRYABLE),
        (PermanentError("no"), State.FAILED, Reason.PERMANENT, Category.FATAL),
        (ManualReview("no"), State.REVIEW, Reason.IN_DOUBT, Category.MANUAL_REVIEW),
        (RecursionError("no"), State.FAILED, Reason.RETRIES_USED_UP, Category.RETRYABLE),
        (SoftTimeLimitExceeded("no"), State.FAILED, Reason.RETRIES_USED_UP, Category.RETRYABLE),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_an_error_is_recorded_and_its_writes_are_undone(
    till: Till, shop: Counter, error: Exception, state: State, reason: Reason, category: Category
) -> None:
    assert till.deliver(ending(till, shop, error), 7).error is error
    row = shop.row
    assert (row.state, row.reason, row.category) == (state, reason, category)
    assert (row.token, row.attempts, row.crashes, row.task_id) == (1, 1, 0, "A")
    assert type(error).__name__ in (row.result or "")
    assert '"args": [7]' in (row.message or "")
    assert shop.effects == []


@pytest.mark.parametrize(
    ("error", "seen"), [(MemoryError(), TaskMemoryError), (SystemExit(3), TaskExit)], ids=["memory", "exit"]
)
def test_an_error_that_would_end_the_worker_is_an_ordinary_failure(
    till: Till, shop: Counter, error: BaseException, seen: type[Exception]
) -> None:
    assert isinstance(till.deliver(ending(till, shop, error), 7).error, seen)
    assert (shop.state, shop.effects) == (State.FAILED, [])


def test_an_exit_is_an_ordinary_failure(till: Till, shop: Counter) -> None:
    @till.guarded()
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        shop.sell(self)
        sys.exit(3)

    assert isinstance(till.deliver(sell, 7).error, TaskExit)
    assert (shop.state, shop.effects) == (State.FAILED, [])


def test_the_arguments_of_a_sensitive_task_are_not_kept_when_it_fails(till: Till, shop: Counter) -> None:
    @till.guarded(sensitive=("card",))
    def sell(self: Any, order: int, card: str) -> NoReturn:  # noqa: ARG001
        shop.sell(self)
        raise Busy

    till.deliver(sell, 7, "4111")
    assert (shop.state, shop.row.message, shop.effects) == (State.FAILED, None, [])
    assert isinstance(till.deliver(sell, 7, "4111").error, RecordedError)


def ask_again(task: Any, how: str) -> None:
    """Have the attempt run again, in one of the ways that there are."""
    if how == "self.retry":
        raise task.retry(countdown=0)
    if how.startswith("not thrown"):
        task.retry(countdown=0, throw=False)
    if how in RAISED:
        raise RAISED[how]


RAISED: dict[str, Exception] = {
    "not thrown, then an error": ValueError("after it"),
    "not thrown, then ignored": Ignore(),
    "autoretry_for": Busy("later"),
    "TransientError": TransientError("later"),
    "SoftTimeLimitExceeded": SoftTimeLimitExceeded(),
}


class TestRetries:
    """RETRY is in the ledger before its message is published; the writes of the attempt are undone."""

    def asked(self, till: Till, shop: Counter, **options: Any) -> Any:
        """A task whose first attempt is to be run again, as its second argument says."""

        @till.guarded(**{"max_retries": 3, "autoretry_for": (Busy,)} | options)
        def sell(self: Any, order: int, how: str) -> Any:
            shop.sell(self, f"retry {self.request.retries}")
            if self.request.retries:
                return order
            ask_again(self, how)
            return "given up"

        return sell

    @pytest.mark.parametrize(
        ("how", "options"),
        [
            ("self.retry", {}),
            ("not thrown", {}),
            ("not thrown, then an error", {}),
            ("not thrown, then ignored", {}),
            ("autoretry_for", {}),
            ("TransientError", {}),
            ("SoftTimeLimitExceeded", {"transient_errors": (SoftTimeLimitExceeded,)}),
        ],
    )
    def test_a_retry_undoes_and_is_recorded_before_it_is_sent(
        self, till: Till, shop: Counter, how: str, options: dict[str, Any]
    ) -> None:
        task = self.asked(till, shop, **options)
        end = till.deliver(task, 7, how)
        assert end.is_retried or how.startswith("not thrown")
        assert shop.effects == []
        (sent,) = till.sent
        assert sent.row is not None
        assert (sent.row.state, sent.row.reason) == (State.RETRY, Reason.RETRY_ASKED)
        assert (sent.options["task_id"], sent.options["retries"]) == ("A", 1)

        assert till.deliver_sent(task).result == 7
        row = shop.row
        assert (row.state, row.attempts, row.token, row.task_id) == (State.SUCCEEDED, 2, 2, "A")
        assert (row.message, row.crashes) == (None, 0)
        assert shop.effects == ["retry 1"]
        assert till.sent == []

    def test_a_retry_that_is_not_thrown_lets_celery_see_the_value(self, till: Till, shop: Counter) -> None:
        assert till.deliver(self.asked(till, shop), 7, "not thrown").result == "given up"
        assert shop.row.result is None

    def test_a_retry_that_the_broker_refuses_is_left_to_the_sweeper(self, till: Till, shop: Counter) -> None:
        task = self.asked(till, shop)
        till.broker_error = OSError("down")
        assert till.deliver(task, 7, "self.retry").is_retried
        row = shop.row
        assert (row.state, row.sends) == (State.RETRY, -1)
        assert '"retries": 1' in (row.message or "")
        assert row.due_at is not None
        assert row.open_at is not None
        assert (row.due_at - row.open_at).total_seconds() < 60  # REPUBLISH_AFTER is 300

    def test_a_retry_that_nobody_can_store_nor_send_keeps_its_message(
        self, till: Till, shop: Counter
    ) -> None:
        task = self.asked(till, shop, sensitive=("how",))
        till.broker_error = OSError("down")
        assert till.deliver(task, 7, "self.retry").is_requeued
        assert (shop.state, shop.effects) == (State.RETRY, [])

    def test_a_retry_with_other_arguments_is_the_same_key(self, till: Till, shop: Counter) -> None:
        @till.guarded(max_retries=1)
        def sell(self: Any, order: int) -> int:
            shop.sell(self)
            if order == 7:
                raise self.retry(args=(8,), countdown=0)
            return order

        till.deliver(sell, 7)
        assert till.deliver_sent(sell).result == 8
        assert (shop.row.key_text, shop.row.attempts, len(shop.effects)) == ("order=7", 2, 1)

    @pytest.mark.parametrize("how", ["autoretry_for", "TransientError"])
    def test_retries_that_are_used_up_leave_the_error(self, till: Till, shop: Counter, how: str) -> None:
        error = Busy("no") if how == "autoretry_for" else TransientError("no")
        task = ending(till, shop, error, autoretry_for=(Busy,), max_retries=2)
        ends = [till.deliver(task, 7), till.deliver_sent(task), till.deliver_sent(task)]
        assert [end.is_retried for end in ends] == [True, True, False]
        assert ends[-1].error is error
        row = shop.row
        assert (row.state, row.reason, row.attempts, row.token) == (5, Reason.RETRIES_USED_UP, 3, 3)
        assert (shop.effects, till.sent) == ([], [])

    def test_an_error_that_is_known_to_be_permanent_is_not_retried(self, till: Till, shop: Counter) -> None:
        task = ending(
            till,
            shop,
            ValueError("no"),
            autoretry_for=(Exception,),
            permanent_errors=(ValueError,),
            max_retries=3,
        )
        assert isinstance(till.deliver(task, 7).error, ValueError)
        assert (shop.state, shop.row.reason, till.sent) == (State.FAILED, Reason.PERMANENT, [])
