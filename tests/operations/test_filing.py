"""``dead_letter()``: work that cannot be done now is filed under its key, beside what the caller writes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from celery import Task
from django.db import transaction
from pydantic import BaseModel

from django_idempotent_tasks import (
    ConfigurationError,
    DuplicateTask,
    InvalidKey,
    KeyReused,
    ManualReview,
    PermanentError,
    dead_letter,
)
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.messages.message import Message
from django_idempotent_tasks.models import DeadLetter, IdempotencyKey
from django_idempotent_tasks.operations.dead_letters import redrive
from django_idempotent_tasks.signals import dead_lettered
from django_idempotent_tasks.states import Category, State
from django_idempotent_tasks.sweeper.sweep import sweep_once
from tests.support.deliveries import ALIASES, APPS
from tests.support.failed import jobs
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

MODES = pytest.mark.parametrize("mode", ["leased", "atomic"])


class Closed(Exception):
    """The other side is closed."""


@pytest.fixture
def announced() -> Any:
    """What was announced as a dead letter."""
    heard: list[tuple[str, State]] = []

    def hear(sender: str, state: State, **_: object) -> None:
        heard.append((sender, state))

    dead_lettered.connect(hear)
    yield heard
    dead_lettered.disconnect(hear)


@MODES
def test_a_filed_call_is_a_dead_letter_with_its_record(
    till: Till, shop: Counter, mode: str, announced: Any
) -> None:
    task = till.seller(shop, mode=mode)
    letter = dead_letter(task, (7,), {"note": "late"}, Closed("until Monday"))
    assert isinstance(letter, DeadLetter)
    row = shop.row
    assert (row.state, row.category, row.digest) == (State.FAILED, Category.FATAL, letter.digest)
    message = Message.decode(task.name, row.message or "")
    assert (list(message.args), dict(message.kwargs)) == ([7], {"note": "late"})
    (job,) = jobs(shop)
    assert (job.description, job.signature) == ("until Monday", row.signature)
    assert (shop.runs, till.sent) == (0, [])
    assert announced == [(task.name, State.FAILED)]


def test_a_filed_call_runs_when_it_is_redriven(till: Till, shop: Counter) -> None:
    task = till.seller(shop, mode="leased")
    letter = dead_letter(task, (7,))
    assert redrive(get_store(), letter, by="ann").done
    sweep_once(till, get_store())
    assert till.deliver_sent(task).result == {"order": 7}
    assert (shop.state, shop.runs, shop.starts[0]["attempt"]) == (State.SUCCEEDED, 1, 1)


@MODES
def test_what_no_database_takes_is_recorded_and_redriven_with_equal_arguments(
    till: Till, shop: Counter, mode: str
) -> None:
    goods: Any = {"text": "a\0b" + "x" * 1021, "list": [[number, ["\ud800"]] for number in range(200)]}
    given: list[Any] = []

    @till.guarded(mode=mode)
    def sell(self: Any, order: int, goods: Any) -> None:  # noqa: ARG001
        given.append(goods)
        if len(given) == 1:
            raise PermanentError("a\0b\ud800" + "y" * 5_000_000)

    till.deliver(sell, 7, goods)
    (job,) = jobs(shop)
    assert job.description.startswith("a\\x00b?y")
    assert len(job.description) < 5000
    assert "\0" not in job.traceback
    assert redrive(get_store(), shop.row, by="ann").done
    sweep_once(till, get_store())
    till.deliver_sent(sell)
    assert given == [goods, goods]
    assert shop.state == State.SUCCEEDED


@pytest.mark.parametrize("error", [ManualReview("?"), Closed("?")], ids=lambda error: type(error).__name__)
def test_what_the_tasks_rules_give_to_a_person_is_filed_in_review(
    till: Till, shop: Counter, error: Exception
) -> None:
    each: tuple[dict[str, Any], ...] = ({"review_errors": (Closed,)}, {"classify": lambda _: 3})
    for order, rules in enumerate(each):
        letter = dead_letter(till.seller(shop, **rules), (order,), error=error)
        assert (letter.state, letter.category) == (State.REVIEW, Category.MANUAL_REVIEW)


@MODES
def test_what_is_filed_in_a_transaction_goes_with_it(
    till: Till, shop: Counter, mode: str, announced: Any
) -> None:
    task = till.seller(shop, mode=mode)
    with suppress(Closed), transaction.atomic(using=shop.alias):
        shop.write(note="other")
        dead_letter(task, (7,))
        raise Closed
    assert (shop.state, jobs(shop), announced, shop.effects) == (None, [], [], [])
    with transaction.atomic(using=shop.alias):
        dead_letter(task, (7,))
        assert announced == []
    assert (shop.state, len(jobs(shop)), len(announced)) == (State.FAILED, 1, 1)


@MODES
@pytest.mark.parametrize("state", [State.SUCCEEDED, State.REVIEW, State.RUNNING, State.RETRY, State.PENDING])
def test_a_key_that_has_another_outcome_or_is_being_worked_on_is_left_alone(
    till: Till, shop: Counter, mode: str, state: State
) -> None:
    task = till.seller(shop, mode=mode)
    till.deliver(task, 7)
    shop.put(state=state)
    before = IdempotencyKey.objects.using(shop.alias).values().get()
    with pytest.raises(DuplicateTask, match="as call A") as refused:
        dead_letter(task, (7,))
    assert (refused.value.task_id, bool(refused.value.reason)) == ("A", True)
    assert IdempotencyKey.objects.using(shop.alias).values().get() == before
    assert jobs(shop) == []


def test_another_payload_under_a_key_is_refused_as_sending_does(till: Till, shop: Counter) -> None:
    task = till.seller(shop, mode="leased", key="order", fingerprint=("order", "note"))
    till.deliver(task, 7, "sold")
    with pytest.raises(KeyReused, match="another payload"):
        dead_letter(task, (7, "given"))
    assert shop.state is State.SUCCEEDED


def test_what_cannot_be_filed_says_why(till: Till, shop: Counter) -> None:
    @till.task(base=Task, shared=False, name=till.new_name())
    def plain() -> None: ...

    for task, words in (
        (plain, "no key to file"),
        (till.seller(shop, sensitive=("note",)), "is sensitive"),
        (till.seller(shop, lease=0), "lease"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            dead_letter(task, (7,))
    with pytest.raises(ConfigurationError, match="above MAX_PAYLOAD"):
        dead_letter(till.seller(shop), (7, "x" * 2_000_000))
    with pytest.raises(InvalidKey):
        dead_letter(till.seller(shop), (object(),))
    assert shop.state is None


class Order(BaseModel):
    """What a task takes."""

    number: int


def test_models_of_pydantic_are_filed_as_they_are_sent(till: Till, shop: Counter) -> None:
    name = till.new_name()

    @till.guarded(mode="leased", pydantic=True, bind=False, name=name)
    def sell(order: Order) -> None: ...

    dead_letter(till.tasks[name], (Order(number=7),))
    assert list(Message.decode(name, shop.row.message or "").args) == [{"number": 7}]
