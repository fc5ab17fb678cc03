"""What is refused of a step: a value or a name that cannot be kept, and a place where none can be taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from django_idempotent_tasks import ConfigurationError, OuterTransaction
from django_idempotent_tasks.states import State
from tests.running.delivery.test_steps import a_task, kept
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


class Rude:
    """A value whose own methods raise."""

    def __reduce__(self) -> Any:
        raise ZeroDivisionError


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("value", [object(), Rude(), {1: 2, "1": 3}, "x" * 70_000, {1, 2}.__iter__()])
def test_a_value_that_cannot_be_kept_is_refused_before_anything_is_committed(
    till: Till, shop: Counter, alias: str, value: Any, external: bool
) -> None:
    def write() -> Any:
        shop.write(note="write")
        return value

    work = a_task(till, lambda self: self.idempotency.step("big", write, external=external))
    error = till.deliver(work, 7).error
    assert isinstance(error, ConfigurationError)
    assert "'big' cannot be kept" in str(error)
    assert "MAX_RESULT" in str(error)
    assert (shop.state, kept(alias)) == (State.FAILED, [])
    assert shop.effects == (["write"] if external else [])


def test_a_value_that_quotes_a_sensitive_argument_is_refused(till: Till, alias: str) -> None:
    @till.guarded(mode="leased", sensitive=("card",))
    def pay(self: Any, order: int, card: str) -> Any:  # noqa: ARG001
        return self.idempotency.step("ask", lambda: {"said": f"thanks for {card}"})

    error = till.deliver(pay, 7, "4111-1111").error
    assert isinstance(error, ConfigurationError)
    assert "4111" not in str(error)
    assert kept(alias) == []


@pytest.mark.parametrize("name", ["", "x" * 101, "a\x00b", "two\nlines", "\ud800", 7, None])
def test_what_cannot_name_a_step_is_refused(till: Till, alias: str, name: Any) -> None:
    error = till.deliver(a_task(till, lambda self: self.idempotency.step(name, int)), 7).error
    assert isinstance(error, ValueError)
    assert "printable" in str(error)
    assert kept(alias) == []


def _twice(work: Any, _alias: str) -> None:
    work.step("one", int)
    work.step("one", int)


def _inside(work: Any, _alias: str) -> None:
    work.step("outer", lambda: work.step("inner", int), external=True)


def _after(work: Any, _alias: str) -> None:
    with work.complete():
        pass
    with pytest.raises(RuntimeError, match="after complete"):
        work.step("late", int)
    raise RuntimeError("it has completed")


def _completing_inside(work: Any, _alias: str) -> None:
    work.step("outer", lambda: work.complete().__enter__(), external=True)


@pytest.mark.parametrize(
    ("misuse", "words"),
    [(_twice, "twice"), (_inside, "inside the step 'outer'"), (_completing_inside, "complete() inside")],
)
def test_misuse_says_what_it_is(till: Till, alias: str, misuse: Callable[..., None], words: str) -> None:
    error = till.deliver(a_task(till, lambda self: misuse(self.idempotency, alias)), 7).error
    assert isinstance(error, RuntimeError)
    assert words in str(error)


def test_a_step_after_complete_is_refused(till: Till, shop: Counter, alias: str) -> None:
    till.deliver(a_task(till, lambda self: _after(self.idempotency, alias)), 7)
    assert (shop.state, kept(alias)) == (State.SUCCEEDED, [])


@pytest.mark.parametrize("external", [False, True])
def test_a_step_in_a_transaction_is_refused(till: Till, shop: Counter, alias: str, external: bool) -> None:
    def body(self: Any) -> None:
        with transaction.atomic(using=alias):
            self.idempotency.step("one", shop.write, external=external)

    assert isinstance(till.deliver(a_task(till, body), 7).error, OuterTransaction)
    assert (shop.effects, kept(alias)) == ([], [])


def _replace_in_a_step(work: Any, replacement: Any, _alias: str) -> None:
    work.idempotency.step("one", work.replace, replacement)


def _replace_in_a_transaction(work: Any, replacement: Any, alias: str) -> None:
    with transaction.atomic(using=alias):
        work.replace(replacement)


@pytest.mark.parametrize("misuse", [_replace_in_a_step, _replace_in_a_transaction])
def test_a_replacement_whose_reservation_is_rolled_back_does_not_complete_the_key(
    till: Till, shop: Counter, alias: str, misuse: Callable[..., None]
) -> None:
    other = till.seller(shop, reserve=True)
    error = till.deliver(a_task(till, lambda self: misuse(self, other.si(9), alias)), 7).error
    assert isinstance(error, OuterTransaction)
    assert "replace()" in str(error)
    assert (shop.state, till.sent) == (State.FAILED, [])


def test_a_step_of_an_atomic_task_is_refused(till: Till, shop: Counter) -> None:
    work = a_task(till, lambda self: self.idempotency.step("one", shop.write), mode="atomic")
    error = till.deliver(work, 7).error
    assert isinstance(error, RuntimeError)
    assert 'mode="leased"' in str(error)
    assert shop.effects == []
