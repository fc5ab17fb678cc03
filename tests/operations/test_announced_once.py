"""Dead letters are announced once, after the commit that made them, and logged without a flood."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError

from django_idempotent_tasks import ManualReview, PermanentError, log
from django_idempotent_tasks.ledger import orphans
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Claim
from django_idempotent_tasks.signals import dead_lettered, key_failed
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper import sweep
from django_idempotent_tasks.sweeper.sweep import sweep_bite
from django_idempotent_tasks.testing.contract.bench import Bench, a_failure
from django_idempotent_tasks.worker.deaths import Crash
from tests.support.deliveries import ALIASES, APPS
from tests.support.failed import jobs
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

MODES = pytest.mark.parametrize("mode", ["leased", "atomic"])


@pytest.fixture(autouse=True)
def _untold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "_signatures", log._Seen(seconds=3600, most=1000))


def failing(till: Till, error: Exception, **options: Any) -> Any:
    @till.guarded(**options)
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        raise error

    return sell


@pytest.fixture
def heard(shop: Counter) -> Iterator[list[tuple[str, str, State | None, int]]]:
    """Each signal with its sender, and what was committed when it was sent."""
    signals: list[tuple[str, str, State | None, int]] = []

    def hear(name: str) -> Any:
        def receive(sender: str, **_: object) -> None:
            signals.append((name, sender, shop.state, len(jobs(shop))))

        return receive

    receivers = {key_failed: hear("key_failed"), dead_lettered: hear("dead_lettered")}
    for signal, receiver in receivers.items():
        signal.connect(receiver)
    yield signals
    for signal, receiver in receivers.items():
        signal.disconnect(receiver)


def swept(till: Till, shop: Counter, claim: Claim) -> None:
    with shifted(claim.lease + 1):
        sweep_bite(till, get_store(shop.alias))
        sweep_bite(till, get_store(shop.alias))


def released(till: Till, shop: Counter, claim: Claim) -> None:  # noqa: ARG001
    assert orphans.release(get_store(shop.alias), shop.row)
    assert not orphans.release(get_store(shop.alias), shop.row)


def buried(till: Till, shop: Counter, claim: Claim) -> None:  # noqa: ARG001
    store, end = get_store(shop.alias), Crash(a_failure())
    for _ in range(2):
        end.end(store, claim.call, claim.owner)


@pytest.mark.parametrize("way", [swept, released, buried])
@pytest.mark.parametrize("in_external", [True, False])
def test_whose_owner_is_gone_inside_external_is_a_dead_letter_that_is_told_of_once(
    till: Till, shop: Counter, heard: list[Any], way: Any, *, in_external: bool
) -> None:
    bench, store = Bench(), get_store(shop.alias)
    call = bench.call("A")
    grant = store.claim_new(call, owner="host:1:abc", lease=60)
    assert grant is not None
    claim = Claim(call, "host:1:abc", grant, 60)
    if in_external:
        assert store.enter_external(claim)
    way(till, shop, claim)
    state = State.REVIEW if in_external else State.RETRY
    assert shop.state is state
    assert [(name, sender, seen) for name, sender, seen, _jobs in heard] == (
        [("dead_lettered", call.task, state)] if in_external else []
    )


def test_it_is_told_of_though_the_sweep_that_found_it_could_not_go_on(
    till: Till, shop: Counter, heard: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_arguments: Any) -> Any:
        raise OperationalError("the connection was cut")

    monkeypatch.setattr(sweep, "post", cut)
    store, call = get_store(shop.alias), Bench().call("A")
    grant = store.claim_new(call, owner="host:1:abc", lease=60)
    assert grant is not None
    assert store.enter_external(Claim(call, "host:1:abc", grant, 60))
    with shifted(61), pytest.raises(OperationalError):
        sweep_bite(till, store)
    assert [name for name, *_ in heard] == ["dead_lettered"]


@MODES
@pytest.mark.parametrize(
    ("error", "state"),
    [
        (ValueError("no"), State.FAILED),
        (PermanentError("no"), State.FAILED),
        (ManualReview("?"), State.REVIEW),
    ],
    ids=lambda value: value.name if isinstance(value, State) else type(value).__name__,
)
def test_a_dead_letter_is_announced_once_when_it_and_its_record_are_there(
    till: Till, shop: Counter, heard: Any, mode: str, error: Exception, state: State
) -> None:
    task = failing(till, error, mode=mode)
    till.deliver(task, 7)
    assert heard == [("key_failed", task.name, state, 1), ("dead_lettered", task.name, state, 1)]
    till.deliver(task, 7)
    till.deliver(task, 7, redelivered=True)
    assert len(heard) == 2
    assert shop.state is state


@MODES
def test_an_attempt_that_will_be_retried_is_no_dead_letter(
    till: Till, shop: Counter, heard: Any, mode: str
) -> None:
    till.deliver(failing(till, ValueError("no"), mode=mode, autoretry_for=(ValueError,)), 7)
    assert (shop.state, heard, len(jobs(shop))) == (State.RETRY, [], 1)


def test_of_like_dead_letters_one_line_an_hour_is_an_error(
    till: Till, shop: Counter, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, other = failing(till, PermanentError("no")), failing(till, PermanentError("no"))
    with caplog.at_level(logging.INFO, logger="django_idempotent_tasks"):
        for order in range(5):
            till.deliver(task, order)
        till.deliver(other, 7)
    assert levels(caplog, task.name) == [logging.ERROR, *[logging.INFO] * 4]
    assert levels(caplog, other.name) == [logging.ERROR]
    assert len(jobs(shop)) == 6

    caplog.clear()
    later = time.monotonic() + 3601
    monkeypatch.setattr(time, "monotonic", lambda: later)
    till.deliver(task, 99)
    assert levels(caplog, task.name) == [logging.ERROR]


def levels(caplog: pytest.LogCaptureFixture, task: str) -> list[int]:
    return [
        record.levelno
        for record in caplog.records
        if "is a dead letter" in record.getMessage() and record.getMessage().startswith(task)
    ]


class Forger(Exception):
    """An error whose class says it lives in another line of the log."""


Forger.__module__ = "shop\nERROR root: all is well\x1b[2J"


@pytest.mark.usefixtures("shop")
def test_an_error_forges_no_line_of_the_log(till: Till, caplog: pytest.LogCaptureFixture) -> None:
    @till.guarded()
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        raise Forger

    till.deliver(sell, 7)
    said = [record.getMessage() for record in caplog.records if record.name == "django_idempotent_tasks"]
    assert said
    assert all(line.isprintable() for line in said)
