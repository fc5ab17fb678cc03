"""A copy knows which attempt of its call it is: one that is out of date runs nothing."""

from __future__ import annotations

from typing import Any

import pytest

from django_idempotent_tasks import PermanentError
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.messages.message import Message
from django_idempotent_tasks.operations import dead_letters
from django_idempotent_tasks.states import State
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, End, Sent, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

each_mode = pytest.mark.parametrize("mode", ["leased", "atomic"])
each_copy = pytest.mark.parametrize("redelivered", [False, True], ids=["sent twice", "redelivered"])
each_road = pytest.mark.parametrize("reserve", [False, True], ids=["sent", "reserved"])


def deliver(till: Till, task: Any, sent: Sent, **options: Any) -> End:
    """Deliver a message that was sent, perhaps not for the first time."""
    headers = sent.options.get("headers") or {}
    details = {name: sent.options.get(name) or 0 for name in ("retries", "replaced_task_nesting")}
    task_id = sent.options["task_id"]
    return till.deliver(task, *sent.args, id=task_id, kwargs=sent.kwargs, **details, **headers, **options)


def first(till: Till, task: Any, *, reserve: bool) -> Sent:
    """The first message of a call."""
    task.apply_async((7, "first"), task_id="A") if not reserve else task.submit((7, "first"), task_id="A")
    return till.sent.pop()


def stored(shop: Counter, name: str) -> Sent:
    """The message that the sweeper would send."""
    message = Message.decode(name, shop.row.message or "")
    return Sent(name, list(message.args), dict(message.kwargs), dict(message.options), None)


@each_copy
@each_road
@each_mode
def test_a_copy_of_an_earlier_retry_does_not_run_a_later_one(
    till: Till, shop: Counter, mode: str, *, reserve: bool, redelivered: bool
) -> None:
    @till.guarded(mode=mode, max_retries=5, reserve=reserve)
    def sell(self: Any, order: int, note: str) -> str:
        shop.sell(self, note)
        if shop.runs < 3:
            raise self.retry(args=(order, f"{note}+"), countdown=20)
        return note

    copies = [first(till, sell, reserve=reserve)]
    for number in range(2):
        with shifted(21 * number):
            assert deliver(till, sell, copies[-1]).is_retried
        copies.append(till.sent.pop())
    before = vars(shop.row) | {"_state": None}
    with shifted(42):
        for stale in copies[:2]:
            assert deliver(till, sell, stale, redelivered=redelivered).is_ignored
        assert (vars(shop.row) | {"_state": None}, till.sent) == (before, [])
        assert deliver(till, sell, copies[2]).result == "first++"
    assert (shop.runs, shop.row.attempts) == (3, 3)


@each_copy
@each_road
@each_mode
def test_a_copy_from_before_a_redrive_does_not_run_what_was_redriven(
    till: Till, shop: Counter, mode: str, *, reserve: bool, redelivered: bool
) -> None:
    @till.guarded(mode=mode, max_retries=5, reserve=reserve)
    def sell(self: Any, order: int, note: str) -> str:  # noqa: ARG001
        shop.sell(self, note)
        if shop.runs == 1:
            raise self.retry(countdown=0)
        if shop.runs == 2:
            raise PermanentError
        return note

    copies = [first(till, sell, reserve=reserve)]
    assert deliver(till, sell, copies[0]).is_retried
    copies.append(till.sent.pop())
    deliver(till, sell, copies[1])
    assert dead_letters.redrive(get_store(), shop.row, by="ann", edited=([7, "edited"], {})).done
    for stale in copies:
        assert deliver(till, sell, stale, redelivered=redelivered).is_ignored
    assert (shop.state, shop.runs, till.sent) == (State.PENDING, 2, [])
    assert deliver(till, sell, stored(shop, sell.name)).result == "edited"
    for stale in copies:
        assert deliver(till, sell, stale).result == "edited"


def test_a_copy_from_before_a_leased_task_took_its_own_place_runs_nothing(till: Till, shop: Counter) -> None:
    @till.guarded(mode="leased", max_retries=5)
    def sell(self: Any, order: int, note: str) -> str:
        shop.sell(self, note)
        if shop.runs == 1:
            raise self.retry(countdown=0)
        if shop.runs == 2:
            raise self.replace(sell.si(order, "instead"))
        return note

    copies = [first(till, sell, reserve=False)]
    for _ in range(2):
        deliver(till, sell, copies[-1])
        copies.append(till.sent.pop())
    assert shop.state is State.RETRY
    for stale in copies[:2]:
        assert deliver(till, sell, stale, redelivered=True).is_ignored
    assert deliver(till, sell, copies[2]).result == "instead"


@each_mode
def test_where_nothing_may_be_stored_every_copy_counts(till: Till, shop: Counter, mode: str) -> None:
    @till.guarded(mode=mode, max_retries=5, sensitive=("note",))
    def sell(self: Any, order: int, note: str) -> str:  # noqa: ARG001
        shop.sell(self)
        if shop.runs == 1:
            raise self.retry(countdown=0)
        return note

    only = first(till, sell, reserve=False)
    deliver(till, sell, only)
    assert shop.row.message is None
    assert deliver(till, sell, only, redelivered=True).result == "first"


@each_mode
def test_a_copy_that_is_later_than_the_row_is_run(till: Till, shop: Counter, mode: str) -> None:
    """The ledger went back to an earlier retry: what the newer message asks for is not dropped."""

    @till.guarded(mode=mode, max_retries=5)
    def sell(self: Any, order: int, note: str) -> str:
        shop.sell(self, note)
        if shop.runs < 3:
            raise self.retry(args=(order, f"{note}+"), countdown=0)
        return note

    copies = [first(till, sell, reserve=False)]
    deliver(till, sell, copies[0])
    copies.append(till.sent.pop())
    earlier = {name: value for name, value in vars(shop.row).items() if name not in {"_state", "digest"}}
    deliver(till, sell, copies[1])
    shop.put(**earlier)
    assert deliver(till, sell, till.sent.pop(), redelivered=True).result == "first++"


@each_mode
def test_a_cancelled_call_that_was_a_dead_letter_keeps_its_message_for_as_long_as_one(
    till: Till, shop: Counter, mode: str, settings: Any
) -> None:
    settings.IDEMPOTENT_TASKS |= {"DEAD_LETTER_RETENTION": 90 * 86400, "REDELIVERY_WINDOW": 86400}

    @till.guarded(mode=mode)
    def sell(self: Any, order: int, note: str) -> None:  # noqa: ARG001
        raise PermanentError

    deliver(till, sell, first(till, sell, reserve=False))
    assert dead_letters.redrive(get_store(), shop.row, by="ann").done
    kept = shop.row.message
    assert get_store().cancel(shop.row.digest, window=86400)
    row = shop.row
    assert (row.state, row.message) == (State.CANCELLED, kept)
    assert row.due_at is not None
    assert row.finished_at is not None
    assert (row.due_at - row.finished_at).days == 90
