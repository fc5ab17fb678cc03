"""An error that a task expects ends its key at once, is written down as such, and waits for nobody."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from celery.exceptions import Retry

from django_idempotent_tasks import PermanentError, signals
from django_idempotent_tasks.models import DeadLetter
from django_idempotent_tasks.states import Category, Reason, State
from tests.support.deliveries import ALIASES, APPS
from tests.support.failed import jobs
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


class Declined(Exception):
    """What the customer's bank says."""


class Heard:
    """Which signals were sent."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.categories: list[Category] = []
        signals.dead_lettered.connect(self.dead, weak=False, dispatch_uid="test_expected_ends")
        signals.key_failed.connect(self.failed, weak=False, dispatch_uid="test_expected_ends")

    def dead(self, **_given: Any) -> None:
        self.names.append("dead_lettered")

    def failed(self, failure: Any, **_given: Any) -> None:
        self.names.append("key_failed")
        self.categories.append(failure.category)


@pytest.fixture
def heard() -> Any:
    yield Heard()
    signals.dead_lettered.disconnect(dispatch_uid="test_expected_ends")
    signals.key_failed.disconnect(dispatch_uid="test_expected_ends")


def declining(till: Till, shop: Counter, error: type[Exception] = Declined, **options: Any) -> Any:
    """A task that writes, and then meets a declined card."""

    @till.guarded(**{"max_retries": 3, **options})
    def pay(self: Any, order: int) -> None:  # noqa: ARG001
        shop.sell(self, "charged")
        raise error("no")

    return pay


@pytest.mark.parametrize("mode", ["leased", "atomic"])
def test_an_expected_error_ends_the_key_at_once_and_no_alarm_is_raised(
    till: Till, shop: Counter, heard: Heard, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    task = declining(
        till, shop, mode=mode, expected_errors=(Declined,), autoretry_for=(Exception,), retention=10 * 86400
    )
    with caplog.at_level(logging.INFO):
        end = till.deliver(task, 7)
    row, job = shop.row, jobs(shop)[0]
    assert isinstance(end.error, Declined)
    assert (row.state, row.reason, row.category) == (State.FAILED, Reason.EXPECTED, Category.EXPECTED)
    assert (shop.runs, till.sent, job.category, job.signature) == (1, [], Category.EXPECTED, row.signature)
    assert shop.effects == ([] if mode == "atomic" else ["charged"])
    assert (heard.names, heard.categories) == (["key_failed"], [Category.EXPECTED])
    found = [model.using(shop.alias).count() for model in (DeadLetter.objects, DeadLetter.undecided)]
    assert found == [0, 1]
    assert row.due_at is not None
    assert row.finished_at is not None
    assert row.due_at - row.finished_at == timedelta(days=10)
    assert {each.levelname for each in caplog.records} == {"INFO"}
    assert "ended as expected" in caplog.text


@pytest.mark.parametrize("mode", ["leased", "atomic"])
def test_a_new_call_of_an_expected_end_is_refused_and_its_own_copy_gets_the_error_again(
    till: Till, shop: Counter, mode: str
) -> None:
    task = declining(till, shop, mode=mode, expected_errors=(Declined,), on_duplicate="skip")
    till.deliver(task, 7)
    assert till.deliver(task, 7, id="B").result["reason"] == "failed"
    assert "no" in str(till.deliver(task, 7, redelivered=True).error)
    assert shop.runs == 1


def test_what_celery_throws_is_expected_once_the_task_retries_it_no_more(till: Till, shop: Counter) -> None:
    task = declining(
        till,
        shop,
        mode="leased",
        throws=(Declined,),
        autoretry_for=(Declined,),
        max_retries=1,
        retry_jitter=0,
    )
    assert isinstance(till.deliver(task, 7).error, Retry)
    assert (shop.row.state, shop.row.category) == (State.RETRY, None)
    till.deliver_sent(task)
    assert (shop.row.state, shop.row.category, shop.runs) == (State.FAILED, Category.EXPECTED, 2)


@pytest.mark.parametrize(
    ("options", "category"),
    [
        ({"throws": (Declined,)}, Category.EXPECTED),
        ({"throws": Declined}, Category.EXPECTED),
        ({"throws": (Declined,), "permanent_errors": (Declined,)}, Category.FATAL),
        ({"expected_errors": (Declined,), "permanent_errors": (Exception,)}, Category.FATAL),
        ({"expected_errors": (Declined,), "classify": lambda _error: Category.FATAL}, Category.FATAL),
        ({"classify": lambda _error: Category.EXPECTED}, Category.EXPECTED),
    ],
)
def test_what_ends_a_key_for_certain_comes_before_what_is_expected(
    till: Till, shop: Counter, options: dict[str, Any], category: Category
) -> None:
    till.deliver(declining(till, shop, mode="leased", **options), 7)
    assert (shop.row.state, shop.row.category) == (State.FAILED, category)


def test_our_permanent_error_stays_a_dead_letter_whatever_is_expected(till: Till, shop: Counter) -> None:
    till.deliver(declining(till, shop, PermanentError, mode="leased", expected_errors=(Exception,)), 7)
    assert DeadLetter.objects.using(shop.alias).get().category == Category.FATAL
