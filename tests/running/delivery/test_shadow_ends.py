"""Shadow mode when a call meets its own run, a caller's transaction, or a signal: the body is Celery's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import billiard.common
import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import connections, transaction
from django.utils import timezone

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import Reason, State
from tests.crashes.scenarios import PACKAGE, TRANSACTIONS, first_visits
from tests.running.delivery.shadowed import SHADOW, places
from tests.support.deliveries import ALIASES, APPS
from tests.support.glitch import Glitch, Missed, Spot, files_of, raising
from tests.support.till import Counter, End, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

RUNS_ELSEWHERE = {"state": State.RUNNING, "owner": "gone:1:x", "finished_at": None}


def during(till: Till, shop: Counter, what: Callable[[], None]) -> Any:
    """A task; ``what`` happens in the body of its second run."""

    @till.guarded(**SHADOW)
    def sell(self: Any, order: int) -> int:
        shop.sell(self)
        if shop.runs == 2:
            what()
        return order

    return sell


def test_a_copy_that_came_while_its_call_ran_looks_again_and_is_noted_where_that_has_ended(
    till: Till, shop: Counter, told: list[str]
) -> None:
    ended = {"state": State.SUCCEEDED, "owner": "gone:1:x", "finished_at": timezone.now()}
    task = during(till, shop, lambda: shop.put(**ended))
    till.deliver(task, 7)
    shop.put(**RUNS_ELSEWHERE)
    assert till.deliver(task, 7, redelivered=True).result == 7
    assert (told, places(shop.alias)) == (["redelivered"], [("shadow", "redelivered")])


def test_a_copy_takes_the_key_where_the_lease_of_its_dead_run_is_over_when_its_body_ends(
    till: Till, shop: Counter, told: list[str]
) -> None:
    task = during(till, shop, lambda: shop.put(open_at=shop.row.created_at))
    till.deliver(task, 7)
    shop.put(**RUNS_ELSEWHERE)
    assert till.deliver(task, 7, redelivered=True).result == 7
    assert (told, shop.state, shop.row.token) == ([], State.SUCCEEDED, 2)


def test_a_ledger_that_fails_leaves_the_callers_transaction_usable(
    till: Till, shop: Counter, told: list[str]
) -> None:
    """Its table is away in the caller's own transaction, so that each of its statements fails there."""
    task, table = till.seller(shop, **SHADOW), IdempotencyKey._meta.db_table
    with transaction.atomic(using=shop.alias):
        with connections[shop.alias].cursor() as cursor:
            cursor.execute(f'ALTER TABLE "{table}" RENAME TO away')
        assert task.apply((7,)).get() == {"order": 7}
        assert shop.effects == ["sold"]
        with connections[shop.alias].cursor() as cursor:
            cursor.execute(f'ALTER TABLE away RENAME TO "{table}"')
    assert (shop.effects, shop.state, told) == (["sold"], None, ["store_down"])


class GreenletExit(BaseException):
    """What ends a body of a gevent pool that is told to stop, by its name."""


def test_a_body_that_a_shutdown_ends_gives_its_key_back(till: Till, shop: Counter, told: list[str]) -> None:
    @till.guarded(**SHADOW)
    def sell(self: Any, order: int) -> int:
        shop.sell(self)
        if shop.runs == 1:
            raise GreenletExit
        return order

    assert isinstance(till.deliver(sell, 7).error, GreenletExit)
    assert (shop.state, shop.row.reason, shop.row.message) == (State.RETRY, Reason.RELEASED, None)
    assert till.deliver(sell, 7, redelivered=True).result == 7
    assert (shop.state, shop.row.crashes, told) == (State.SUCCEEDED, 0, [])


# -- a signal strikes anywhere --

FILES = files_of(
    PACKAGE / "running" / "shadow.py",
    PACKAGE / "running" / "shadow_attempt.py",
    PACKAGE / "running" / "heartbeat.py",
    PACKAGE / "ledger" / "ledger.py",
    PACKAGE / "ledger" / "shadow.py",
    PACKAGE / "ledger" / "stores" / "sql.py",
    PACKAGE / "ledger" / "stores" / "connection.py",
)


@pytest.fixture(autouse=True)
def _alive() -> Iterator[None]:
    """Take back billiard's mark of a process that was told to stop."""
    yield
    billiard.common._should_have_exited[0] = False  # type: ignore[attr-defined]  # not in its stubs


def shutdown() -> SystemExit:
    """What billiard's handler of SIGTERM raises in a child, after it has noted that it did."""
    billiard.common._should_have_exited[0] = True  # type: ignore[attr-defined]
    return SystemExit(-241)


def faults(till: Till, shop: Counter, error: Callable[[], BaseException]) -> list[str]:
    """What Celery would not have done, where a signal strikes at each line of a delivery in turn."""
    task = till.seller(shop, **SHADOW)
    glitch = Glitch(FILES | TRANSACTIONS, marker=lambda: shop.runs)
    till.deliver(task, 0, id="A0")
    shop.starts.clear()
    spots = first_visits(glitch.spots(lambda: till.deliver(task, 1, id="A1")))
    found: list[str] = []
    numbers = count(2)
    for spot in spots:
        shop.starts.clear()
        try:
            end = struck(till, glitch, spot, error, task, next(numbers))
        except Missed:  # the heart has slept for a beat with no lease, so that it was to be woken once more
            shop.starts.clear()
            end = struck(till, glitch, spot, error, task, next(numbers))
        connections[shop.alias].close()
        if connections[shop.alias].in_atomic_block:
            connections[shop.alias].connect()
        found += [f"{spot}: {end}: {what}" for what in wrong(end, spot, shop, type(error()))]
    return found


def struck(
    till: Till, glitch: Glitch, spot: Spot, error: Callable[[], BaseException], task: Any, number: int
) -> End:
    """The end of a call at which a signal strikes there."""
    ends: list[End] = []
    try:
        work = lambda: ends.append(till.deliver(task, number, id=f"A{number}"))  # noqa: E731
        glitch.strike(spot, raising(error), work)
    except (SystemExit, SoftTimeLimitExceeded) as outside:
        ends.append(End(error=outside))
    return ends[0]


def wrong(end: End, spot: Spot, shop: Counter, kind: type[BaseException]) -> list[str]:
    """The faults of one delivery; ``spot.marker`` is 1 where the body had begun."""
    is_told = isinstance(end.error, kind)
    if end.error is not None and not is_told:
        return ["another error"]
    if not spot.marker:
        return [] if is_told and not shop.runs else ["the signal was lost before the body"]
    if kind is SystemExit and not is_told:
        return ["the process goes on"]
    return [] if shop.runs == 1 else ["the body ran another time"]


@pytest.mark.parametrize("error", [SoftTimeLimitExceeded, shutdown])
def test_a_signal_that_strikes_beside_the_body_reaches_celery(
    till: Till, shop: Counter, error: Callable[[], BaseException]
) -> None:
    assert faults(till, shop, error) == []
