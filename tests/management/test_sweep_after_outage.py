"""``idem sweep --once`` just after an outage of the ledger: owners that are alive keep their keys."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from celery import Celery

from django_idempotent_tasks.ledger import outage
from django_idempotent_tasks.ledger.ledger import Ledger
from django_idempotent_tasks.ledger.moments import database_now
from django_idempotent_tasks.ledger.rules import Step
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Waiting
from django_idempotent_tasks.management.upkeep import sweep as module
from django_idempotent_tasks.models import SWEEPER, Leader
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper import sweep as sweeping
from django_idempotent_tasks.sweeper.thread import LEADER_LEASE, Sweeper
from django_idempotent_tasks.testing.contract.bench import new_owner
from tests.management.test_command_sweep import app, call
from tests.support.keys import Keys, both, facts, idem
from tests.support.ledger.policies import POLICY

__all__ = ["app"]

pytestmark = [
    pytest.mark.django_db(
        transaction=True, databases=["default", "sqlite"], available_apps=["django_idempotent_tasks"]
    ),
    pytest.mark.usefixtures("app"),
]

LEASE, LONG = 60, 5000


def swept(keys: Keys) -> tuple[int, int]:
    """How many leases one sweep freed, and how many it left alone."""
    code, seen = facts(keys, "sweep", "--once")
    assert code == 0
    return seen["freed"], seen["spared"]


def sweeper(keys: Keys) -> None:
    """Do what the sweeper of a worker does at its poll: note that the ledger answers, and lead."""
    outage.note(keys.store())
    keys.store().lead(SWEEPER, holder="worker", lease=LEADER_LEASE)


def answering(keys: Keys, *, since: int, until: int) -> None:
    """Do what the sweepers of workers do in this time of the clock, every few seconds."""
    for moment in range(since, until + 1, outage.GAP - 2):
        with shifted(moment):
            sweeper(keys)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], list[float]]:
    """Let something happen where the command would wait; how long it would."""

    def instead(happens: Callable[[], object]) -> list[float]:
        pauses: list[float] = []

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            happens()

        monkeypatch.setattr("time.sleep", sleep)
        return pauses

    return instead


@both
def test_a_lease_is_not_freed_before_the_ledger_has_answered_for_as_long(keys: Keys) -> None:
    short, long = keys.claimed(call("short"), lease=LEASE), keys.claimed(call("long"), lease=LONG)
    back = LONG + 100
    answering(keys, since=back, until=back)
    with shifted(back):
        assert swept(keys) == (0, 2)
    assert [keys.row(key).token for key in (short, long)] == [1, 1]
    answering(keys, since=back, until=back + LEASE + 8)
    with shifted(back + LEASE + 8):
        assert swept(keys) == (1, 1)
    assert [keys.row(key).state for key in (short, long)] == [State.RETRY, State.RUNNING]


@both
def test_it_says_how_many_it_leaves_alone_and_why(keys: Keys) -> None:
    keys.claimed(call("alive"), lease=LEASE)
    with shifted(400):
        sweeper(keys)
        code, text = idem("sweep", "--once", "--database", keys.alias)
    assert code == 0
    assert "1 lease(s) are over and were left to their owners, which may come back after an outage" in text


@both
def test_an_owner_that_came_back_is_not_told_of(keys: Keys) -> None:
    claim = keys.claimed(call("alive"), lease=LEASE)
    with shifted(400):
        sweeper(keys)
        assert keys.store().renew([claim]) == {claim.digest}
        assert swept(keys) == (0, 0)


@both
def test_it_waits_for_a_sweeper_that_is_not_back_yet(keys: Keys, waiting: Any) -> None:
    keys.claimed(call("alive"), lease=LEASE)
    outage.note(keys.store())
    with shifted(400):
        pauses = waiting(lambda: sweeper(keys))
        assert swept(keys) == (0, 1)
    assert len(pauses) == 1


@both
def test_a_sweeper_may_come_back_between_its_two_looks_at_the_note(
    keys: Keys, waiting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys.claimed(call("alive"), lease=LEASE)
    outage.note(keys.store())
    kind, looks = type(keys.store()), iter(range(1000))
    led_for = kind.led_for

    def comes_back(look: Any) -> Any:
        def first_looks(store: Any, *named: str) -> Any:
            seen = look(store, *named)
            if next(looks) == 0:
                sweeper(keys)
            return seen

        return first_looks

    monkeypatch.setattr(kind, "led_for", comes_back(led_for))
    monkeypatch.setattr(module, "database_now", comes_back(database_now))
    with shifted(400):
        waiting(lambda: None)
        assert swept(keys) == (0, 1)


@both
def test_where_no_sweeper_comes_back_it_frees_what_is_over(
    keys: Keys, waiting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys.claimed(call("dead"), lease=LEASE)
    outage.note(keys.store())
    clock = iter(range(1000))
    monkeypatch.setattr(module, "monotonic", lambda: next(clock))
    with shifted(400):
        pauses = waiting(lambda: None)
        assert swept(keys) == (1, 0)
    assert len(pauses) == outage.GAP - 1


@both
def test_the_notes_of_a_copy_that_waits_keep_no_sweep_from_a_dead_owner(
    keys: Keys, waiting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = keys.claimed(call("dead"), lease=LEASE)
    outage.note(keys.store())
    ledger, clock = Ledger(keys.store(), replace(POLICY, lease=LEASE)), iter(range(1000))
    monkeypatch.setattr(module, "monotonic", lambda: next(clock))
    with shifted(400):
        assert isinstance(ledger.claim(claim.call, owner=new_owner(), first=Step.WAIT), Waiting)
        waiting(lambda: None)
        assert swept(keys) == (1, 0)


@both
def test_a_host_that_stands_still_between_the_time_of_a_sweep_and_the_note_frees_no_key(
    keys: Keys, app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = keys.claimed(call("alive"), lease=LEASE)
    with shifted(-LEASE):
        keys.store().lead(outage.LEDGER, holder=outage.LEDGER, lease=LEASE + outage.GAP)
    thread = Sweeper(app, database=keys.alias)
    with ExitStack() as stack:
        monkeypatch.setattr(sweeping, "drain", lambda _store: stack.enter_context(shifted(400)))
        thread._free_and_send()
    assert keys.row(claim).token == 1


@both
def test_where_nothing_is_over_it_waits_for_nobody(keys: Keys, waiting: Any) -> None:
    keys.claimed(call("alive"), lease=LONG)
    outage.note(keys.store())
    with shifted(400):
        pauses = waiting(lambda: None)
        assert swept(keys) == (0, 0)
    assert pauses == []


@both
def test_its_own_look_is_no_note(keys: Keys) -> None:
    """A project whose workers do not sweep has nobody who notes, and cron must free what is over."""
    keys.claimed(call("dead"), lease=LEASE)
    with shifted(400):
        assert swept(keys) == (1, 0)
    assert not Leader.objects.using(keys.alias).filter(name=outage.LEDGER).exists()
