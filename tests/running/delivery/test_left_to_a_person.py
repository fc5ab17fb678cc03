"""``at_most_once`` and ``external()``: what might be repeated is left to a person, however the body ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import billiard.common
import pytest
from celery.exceptions import Ignore, Reject, SoftTimeLimitExceeded

from django_idempotent_tasks import ManualReview, PermanentError, TransientError
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.states import Category, Reason, State
from tests.running.delivery.charging import (
    Declined,
    Deed,
    Foreseen,
    Gone,
    Quiet,
    Unknown,
    after,
    before,
    charge,
    inside,
)
from tests.support.deliveries import ALIASES, APPS
from tests.support.failed import jobs, told
from tests.support.till import Counter, End, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


def stopped() -> SystemExit:
    """What a worker child gets that is told to stop."""
    billiard.common._should_have_exited[0] = True  # type: ignore[attr-defined]  # not in its stubs
    return SystemExit(-241)


@pytest.fixture(autouse=True)
def _alive() -> Any:
    yield
    billiard.common._should_have_exited[0] = False  # type: ignore[attr-defined]  # not in its stubs


@pytest.mark.parametrize(
    ("where", "error", "state"),
    [
        (before, Unknown(), State.FAILED),
        (before, Gone(), State.RETRY),
        (before, Declined(), State.FAILED),
        (before, Reject("no", requeue=True), State.RETRY),
        (inside, Unknown(), State.REVIEW),
        (inside, Gone(), State.RETRY),
        (inside, TransientError(), State.RETRY),
        (inside, Declined(), State.FAILED),
        (inside, PermanentError(), State.FAILED),
        (inside, Foreseen(), State.FAILED),
        (inside, Quiet(), State.REVIEW),
        (inside, ManualReview(), State.REVIEW),
        (inside, SoftTimeLimitExceeded(), State.REVIEW),
        (inside, Reject("no", requeue=False), State.REVIEW),
        (inside, Reject("no", requeue=True), State.REVIEW),
        (inside, Ignore(), State.SUCCEEDED),
        (inside, MemoryError(), State.REVIEW),
        (inside, SystemExit(3), State.REVIEW),
        (after, Unknown(), State.REVIEW),
        (after, Gone(), State.REVIEW),
        (after, TransientError(), State.REVIEW),
        (after, Declined(), State.FAILED),
        (after, SoftTimeLimitExceeded(), State.REVIEW),
        (after, Reject("no", requeue=True), State.REVIEW),
    ],
    ids=lambda value: value.name if isinstance(value, State) else getattr(value, "__name__", repr(value)),
)
def test_what_an_error_says_of_an_external_call_decides(
    till: Till, shop: Counter, where: Callable[[BaseException], Deed], error: BaseException, state: State
) -> None:
    till.deliver(charge(till, shop, where(error)), 7)
    assert (shop.state, shop.row.in_external, shop.runs) == (state, False, 1)
    if state is State.REVIEW:
        row = shop.row
        assert (row.category, row.reason, row.due_at) == (Category.MANUAL_REVIEW, Reason.IN_DOUBT, None)
        assert row.signature is not None
        assert jobs(shop)[-1].state == State.REVIEW


@pytest.mark.parametrize("where", [before, inside, after], ids=lambda where: where.__name__)
def test_a_worker_that_is_told_to_stop_gives_back_only_what_cannot_have_happened(
    till: Till, shop: Counter, where: Callable[[BaseException], Deed]
) -> None:
    end = till.deliver(charge(till, shop, where(stopped())), 7)
    assert isinstance(end.error, SystemExit)
    assert shop.state is (State.RETRY if where is before else State.REVIEW)


def _retry(**options: Any) -> Deed:
    def deed(task: Any, _shop: Counter) -> str:
        with task.idempotency.external():
            pass
        task.retry(countdown=0, **options)
        return "went on"

    return deed


@pytest.mark.parametrize("options", [{}, {"throw": False}, {"exc": Gone()}], ids=str)
def test_a_retry_after_an_external_call_is_not_made(till: Till, shop: Counter, options: Any) -> None:
    till.deliver(charge(till, shop, _retry(**options)), 7)
    assert (shop.state, till.sent) == (State.REVIEW, [])


def test_an_error_behind_a_retry_that_was_not_thrown_is_in_doubt_too(till: Till, shop: Counter) -> None:
    def deed(task: Any, _shop: Counter) -> None:
        task.retry(countdown=0, throw=False)
        inside(Unknown())(task, shop)

    till.deliver(charge(till, shop, deed), 7)
    assert (shop.state, till.sent) == (State.REVIEW, [])
    assert told(shop) == [("Unknown", State.REVIEW)]


def test_an_autoretry_does_not_repeat_what_may_have_happened(till: Till, shop: Counter) -> None:
    till.deliver(charge(till, shop, inside(Unknown()), autoretry_for=(Exception,)), 7)
    assert (shop.state, till.sent) == (State.REVIEW, [])


def test_a_transient_error_says_nothing_of_the_call_before_it(till: Till, shop: Counter) -> None:
    def deed(task: Any, _shop: Counter) -> None:
        with task.idempotency.external():
            pass
        inside(Gone())(task, shop)

    till.deliver(charge(till, shop, deed), 7)
    assert shop.state is State.REVIEW


def test_an_error_that_was_caught_leaves_its_doubt_behind(till: Till, shop: Counter) -> None:
    def deed(task: Any, _shop: Counter) -> None:
        try:
            inside(Unknown())(task, shop)
        except Unknown:
            raise Gone from None

    till.deliver(charge(till, shop, deed), 7)
    assert shop.state is State.REVIEW


def test_a_transient_error_that_was_caught_leaves_none(till: Till, shop: Counter) -> None:
    def deed(task: Any, _shop: Counter) -> None:
        try:
            inside(Gone())(task, shop)
        except Gone:
            raise Gone from None

    till.deliver(charge(till, shop, deed), 7)
    assert shop.state is State.RETRY


def test_without_at_most_once_an_external_call_may_be_repeated(till: Till, shop: Counter) -> None:
    till.deliver(charge(till, shop, inside(Unknown()), at_most_once=False, autoretry_for=(Unknown,)), 7)
    assert shop.state is State.RETRY


def test_a_key_left_inside_an_external_call_is_run_by_no_copy_and_no_other_call(
    till: Till, shop: Counter
) -> None:
    task = charge(till, shop, lambda *_: None)
    till.deliver(task, 7)
    shop.put(state=State.RUNNING, in_external=True, open_at=shop.row.started_at, due_at=shop.row.started_at)
    with shifted(1000):
        assert till.deliver(task, 7, redelivered=True).is_ignored
        assert till.deliver(task, 7, id="B").result["reason"] == "in_progress"
        get_store(shop.alias).sweep(bite=9, republish=9)
        end = till.deliver(task, 7, redelivered=True)
    assert "external()" in str(end.error)
    assert (shop.state, shop.runs) == (State.REVIEW, 1)


def test_whoever_lost_the_key_makes_no_external_call(till: Till, shop: Counter) -> None:
    made: list[str] = []

    def deed(task: Any, shop: Counter) -> None:
        shop.put(token=99)
        with task.idempotency.external():
            made.append("charged")

    end: End = till.deliver(charge(till, shop, deed), 7)
    assert end.is_ignored
    assert (made, shop.row.in_external) == ([], False)
