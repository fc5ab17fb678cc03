"""A signal strikes anywhere in an atomic delivery: all of it is done or nothing, the next one is sound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import billiard.common
import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import connections

from django_idempotent_tasks.states import State
from tests.crashes.scenarios import FILES, PACKAGE, TRANSACTIONS, first_visits
from tests.support.deliveries import ALIASES, APPS
from tests.support.glitch import Glitch, Spot, files_of, raising
from tests.support.till import Counter, End, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

DONE = (State.SUCCEEDED, 1)
NOTHING_LEFT: set[tuple[State | None, int]] = {(None, 0), (State.RETRY, 0)}


@pytest.fixture(autouse=True)
def _alive() -> Iterator[None]:
    """Take back billiard's mark of a process that was told to stop."""
    yield
    _mark_shutdown(told=False)


def _mark_shutdown(*, told: bool) -> None:
    billiard.common._should_have_exited[0] = told  # type: ignore[attr-defined]  # not in its stubs


def shutdown() -> SystemExit:
    """What billiard's handler of SIGTERM raises in a child, after it has noted that it did."""
    _mark_shutdown(told=True)
    return SystemExit(-241)


def is_inside(spot: Spot) -> bool:
    """Whether the claim has begun there: before it, Celery alone records a failure."""
    before = {"get_store", "__init__"}
    return ("/stores/" in spot.file or spot.file in TRANSACTIONS) and spot.function not in before


class Struck:
    """Deliveries of new orders, each struck at one line of our own code or of Django's."""

    def __init__(self, till: Till, shop: Counter, files: frozenset[str], *, redelivered: bool) -> None:
        self.till, self.shop, self.redelivered = till, shop, redelivered
        self.glitch = Glitch(files)
        self.task = till.seller(shop)
        #: Whether a block of Django's was open after the delivery, in which the next one would begin.
        self.open_block = False

    def spots(self) -> list[Spot]:
        """The lines of a clean run, each once."""
        self.deliver(0)
        found = first_visits(self.glitch.spots(lambda: self.deliver(1)))
        self.forget()
        return found

    def deliver(self, order: int, *, again: bool = False) -> End:
        """Deliver an order."""
        return self.till.deliver(self.task, order, id=f"A{order}", redelivered=again or self.redelivered)

    def at(self, spot: Spot, error: Callable[[], BaseException]) -> End:
        """Deliver an order, struck there."""
        ends: list[End] = []
        try:
            self.glitch.strike(spot, raising(error), lambda: ends.append(self.deliver(2)))
        except (SystemExit, SoftTimeLimitExceeded) as struck:  # behind the tracer
            ends.append(End(error=struck))
        connection = connections[self.shop.alias]
        connection.close_if_unusable_or_obsolete()  # as a worker does after each task
        self.open_block = connection.in_atomic_block
        connection.close()
        if self.open_block:
            connection.connect()
        return ends[0]

    def found(self) -> tuple[State | None, int]:
        """The key's state, and how often its effect is written."""
        return self.shop.state, len(self.shop.effects)

    def faults_of_the_next(self) -> list[str]:
        """What is wrong with this process's next delivery."""
        faults = ["a block is still open"] if self.open_block else []
        self.forget()
        self.deliver(3)
        return faults if self.found() == DONE else [*faults, f"the next one ended as {self.found()}"]

    def forget(self) -> None:
        """Begin anew."""
        self.shop.clear()
        self.shop.clear_effects()
        self.till.sent.clear()


def faults_of_a_soft_limit(struck: Struck, spot: Spot) -> list[str]:
    """Let the soft time limit strike; the body either failed by it, or it came too late."""
    end, found = struck.at(spot, SoftTimeLimitExceeded), struck.found()
    wrong, comes_back = [], struck.till.comes_back(end)
    if end.error is None or comes_back:
        wrong += [] if found == DONE or (comes_back and found in NOTHING_LEFT) else ["it said so wrongly"]
    elif isinstance(end.error, SoftTimeLimitExceeded):
        unbegun = set() if is_inside(spot) else {(None, 0)}
        wrong += [] if found in {DONE, (State.FAILED, 0)} | unbegun else ["it is half done"]
    else:
        wrong.append("it has another error")
    before = found
    struck.till.deliver_until_answered(struck.task, 2, id="A2", redelivered=True)
    after = struck.found()
    is_over = before[0] is not None and before[0] != State.RETRY
    if after != before if is_over else after[1] != 1:
        wrong.append(f"a copy made it {after}")
    return [f"{spot}: {end}, {found}: {fault}" for fault in [*wrong, *struck.faults_of_the_next()]]


def faults_of_a_shutdown(struck: Struck, spot: Spot) -> list[str]:
    """Let a shutdown strike; the message comes back, and is done once."""
    end, found = struck.at(spot, shutdown), struck.found()
    _mark_shutdown(told=False)
    wrong = [] if isinstance(end.error, SystemExit) else ["the process goes on"]
    if found != DONE and found not in NOTHING_LEFT:
        wrong.append("it is half done")
    struck.till.deliver_until_answered(struck.task, 2, id="A2", redelivered=True)
    if struck.found() != DONE:
        wrong.append(f"its copy made it {struck.found()}")
    return [f"{spot}: {end}, {found}: {fault}" for fault in wrong]


each_signal = pytest.mark.parametrize(
    "faults_of", [faults_of_a_soft_limit, faults_of_a_shutdown], ids=["soft time limit", "shutdown"]
)


def see(struck: Struck, spots: list[Spot], faults_of: Callable[[Struck, Spot], list[str]]) -> None:
    """Strike at each spot, and find nothing wrong."""
    assert spots
    faults: list[Any] = []
    for spot in spots:
        struck.forget()
        faults += faults_of(struck, spot)
    assert not faults, "\n".join(faults)


@each_signal
def test_a_signal_as_the_transaction_begins_or_ends(
    till: Till, shop: Counter, faults_of: Callable[[Struck, Spot], list[str]]
) -> None:
    struck = Struck(till, shop, TRANSACTIONS, redelivered=False)
    blocks = {"__enter__", "__exit__"}
    see(struck, [spot for spot in struck.spots() if spot.function in blocks], faults_of)


@each_signal
def test_a_signal_inside_the_claim_or_the_completion(
    till: Till, shop: Counter, faults_of: Callable[[Struck, Spot], list[str]]
) -> None:
    statements = files_of(
        PACKAGE / "ledger" / "atomic.py", PACKAGE / "ledger" / "stores", without=["clock.py"]
    )
    struck = Struck(till, shop, statements, redelivered=False)
    see(struck, struck.spots(), faults_of)


@pytest.mark.slow
@each_signal
@pytest.mark.parametrize("redelivered", [False, True])
def test_a_signal_at_any_line(
    till: Till, shop: Counter, faults_of: Callable[[Struck, Spot], list[str]], *, redelivered: bool
) -> None:
    struck = Struck(till, shop, FILES | TRANSACTIONS, redelivered=redelivered)
    see(struck, struck.spots(), faults_of)
