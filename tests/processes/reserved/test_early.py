"""What a vanished host took with it is sent again within half a minute, where its queue is empty."""

from __future__ import annotations

import json
import time
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.states import Reason, State
from django_idempotent_tasks.sweeper.early import SOON, Early
from tests.processes.reserved.shop import Shop
from tests.sample import atomic
from tests.sample.celery import app

pytestmark = pytest.mark.process

#: Seconds from a host's death until another one runs what it had: without it, REPUBLISH_AFTER.
BOUND = 30


def hasten(shop: Shop, early: Early, after: int) -> int:
    """One look, as it would be so many seconds from now."""
    with shifted(after), get_store(shop.site.rows.alias).side_connection() as store:
        return early.go_on(store)


def test_a_lost_message_is_sent_early_and_each_further_one_later(usual: Shop, key: str) -> None:
    early, now = Early(app), 0
    usual.order(key)
    usual.site.broker.clear()
    for pause in (SOON, SOON, 2 * SOON, 4 * SOON):
        assert hasten(usual, early, now + pause - 2) == 0
        now += pause + 1
        assert hasten(usual, early, now) == 1
        assert usual.sweep(after=now).sent == 1
        assert hasten(usual, early, now + pause + 5) == 0, "the queue is not empty"
        assert usual.site.broker.waiting() == 1
        usual.site.broker.clear()


def test_only_calls_of_an_empty_queue_are_sent_early(usual: Shop, key: str) -> None:
    usual.order(f"{key}-waits")
    elsewhere = {"queue": f"{usual.site.broker.prefix}elsewhere"}
    with usual.transaction():
        lost = atomic.reserved.apply_async((key, []), **elsewhere)
    usual.site.broker.client.delete(usual.site.broker.prefix + elsewhere["queue"])
    assert hasten(usual, Early(app), SOON + 1) == 1
    assert usual.sweep(after=SOON + 1).sent == 1
    assert usual.keys(sends=1).get().task_id == lost.id


def test_a_page_at_a_time_is_looked_at_and_every_call_in_the_end(
    usual: Shop, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_idempotent_tasks.sweeper.early.ROWS", 2)
    for number in range(5):
        usual.order(f"{key}-{number}")
    usual.site.broker.clear()
    early = Early(app)
    early._bite.size = early._bite.most = 2
    assert [hasten(usual, early, SOON + 1) for _ in range(3)] == [2, 2, 1]


def test_a_key_that_was_given_back_is_left_to_its_own_message_first(usual: Shop, key: str) -> None:
    """A child may have been told to end alone: its parent, which counts a crash then, hears of it later."""
    usual.order(key)
    usual.site.broker.clear()
    given_back = {"state": State.RETRY, "reason": Reason.RELEASED, "open_at": Now()}
    usual.keys().update(**given_back, due_at=Now() + timedelta(seconds=60))
    assert hasten(usual, Early(app), 1) == 0
    assert hasten(usual, Early(app), SOON + 1) == 1


@pytest.mark.slow
def test_an_atomic_body_of_a_host_that_died_runs_elsewhere_within_half_a_minute(
    usual: Shop, key: str
) -> None:
    pace = {"PROJ_SWEEP_SECONDS": "", "PROJ_IDEMPOTENT_TASKS": json.dumps({})}
    first = usual.worker("first", **pace).start()
    with usual.transaction():
        atomic.reserved.apply_async((key, ["begun: wait"]))
    usual.site.journal.started(key)
    heir = usual.worker("heir", **pace).start()
    first.kill()
    killed = time.monotonic()
    usual.site.journal.wait_for("started", key, count=2, within=BOUND)
    print(f"back after {time.monotonic() - killed:.1f} s")
    usual.site.rows.wait_for(key, State.SUCCEEDED)
    assert len(usual.site.rows.effects(key)) == 1
    assert heir.is_alive


@pytest.mark.slow
def test_an_atomic_body_that_runs_for_long_is_left_alone(usual: Shop, key: str) -> None:
    worker = usual.worker("only", PROJ_SWEEP_SECONDS="", PROJ_IDEMPOTENT_TASKS=json.dumps({})).start()
    with usual.transaction():
        atomic.reserved.apply_async((key, ["begun: wait"]))
    usual.site.journal.started(key)
    early = Early(app)
    assert [hasten(usual, early, SOON + 5) for _ in range(2)] == [0, 0]
    usual.site.journal.open(f"{key}.1")
    usual.site.rows.wait_for(key, State.SUCCEEDED)
    worker.kill()
