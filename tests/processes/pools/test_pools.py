"""Under solo, threads and gevent: claims, duplicates, takeover, heartbeats, retries, sweeper, revocation."""

from __future__ import annotations

import time

import pytest

from django_idempotent_tasks.messages.relay import relay
from django_idempotent_tasks.states import State
from tests.processes.pools.conftest import POOLS, SETTINGS
from tests.processes.pools.house import House, backends
from tests.sample import atomic, endings, tasks
from tests.sample.reserving import ordering
from tests.support.brokers.control import revoke
from tests.support.results import result_of
from tests.support.waiting import eventually
from tests.support.workers.site import Site

pytestmark = pytest.mark.process


@pytest.mark.parametrize("pool", POOLS)
def test_what_a_killed_worker_held_is_taken_over_and_done_once(site: Site, key: str, pool: str) -> None:
    if pool == "gevent":
        pytest.importorskip("gevent")
    queue = f"victims-{pool}"
    with site.running("victim", "--pool", "threads", "--concurrency", "1", "-Q", queue, **SETTINGS):
        site.send(tasks.skipping, key, gated=True, options={"queue": queue})
        site.journal.started(key)
    site.broker.clear()  # it took its message with it
    with site.running("heir", "--pool", pool, "--concurrency", "1", "-Q", queue, **SETTINGS):
        second = site.journal.started(key, attempt=2)
        assert second["previous_attempt_died"] is True
        site.journal.open(f"{key}.2")
        row = site.rows.wait_for(key, State.SUCCEEDED)
    site.broker.clear()  # a copy that the sweeper of another worker has sent meanwhile is nobody's now
    assert (row.attempts, row.crashes, row.token) == (2, 1, second["token"])
    assert [effect.attempt for effect in site.rows.effects(key)] == [2]


def test_a_duplicate_is_refused_and_names_the_call_that_runs(house: House, key: str) -> None:
    site = house.site
    first, second = (site.send(tasks.skipping, key, gated=True).id for _ in range(2))
    runs = site.journal.started(key)["task_id"]
    duplicate = second if runs == first else first
    if house.runs_several:
        assert result_of(duplicate)["reason"] == "in_progress"
    site.journal.open(f"{key}.1")
    assert result_of(runs) == {"key": key, "attempt": 1}
    assert result_of(duplicate)["task_id"] == runs
    assert site.journal.starts(key) == len(site.rows.effects(key)) == 1


def test_a_duplicate_that_replays_waits_for_the_first_one_s_result(house: House, key: str) -> None:
    site = house.site
    calls = [site.send(tasks.replaying, key, gated=True).id for _ in range(3)]
    site.journal.started(key)
    site.journal.open(f"{key}.1")
    assert [result_of(call) for call in calls] == [{"key": key, "attempt": 1}] * 3
    assert site.journal.starts(key) == 1


def test_as_many_bodies_run_at_once_as_the_pool_has_places(house: House, key: str) -> None:
    site = house.site
    keys = [f"{key}-{number}" for number in range(4 if house.runs_several else 1)]
    for each in keys:
        site.send(tasks.skipping, each, gated=True)
    for each in keys:
        site.journal.started(each)
    site.journal.open(*(f"{each}.1" for each in keys))
    for each in keys:
        assert site.rows.wait_for(each, State.SUCCEEDED).attempts == 1


@pytest.mark.parametrize("in_transaction", [False, True])
def test_the_heartbeat_keeps_the_lease_on_a_connection_of_its_own(
    house: House, key: str, in_transaction: bool
) -> None:
    site = house.site
    site.send(tasks.renewed, key, in_transaction=in_transaction)
    row = site.rows.wait_for(key, State.SUCCEEDED)
    assert (row.attempts, row.token, row.crashes) == (1, 1, 0)
    assert site.rows.stored(key) > 0, "the body's connection was another one after the beat"


def test_retries_are_attempts_of_one_key(house: House, key: str) -> None:
    house.site.send(endings.retried, key)
    row = house.site.rows.wait_for(key, State.SUCCEEDED)
    assert (row.attempts, row.crashes) == (3, 0)
    assert len(house.site.rows.effects(key)) == 1


def test_an_atomic_body_that_retries_leaves_one_effect(house: House, key: str) -> None:
    site = house.site
    keys = [f"{key}-{number}" for number in range(3)]
    for each in keys:
        site.send(atomic.brief, each, retried=True)
    for each in keys:
        row = site.rows.wait_for(each, State.SUCCEEDED)
        assert (row.attempts, row.crashes, len(site.rows.effects(each))) == (2, 0, 1)


def test_a_body_that_ends_its_process_by_itself_is_a_failure_and_the_worker_lives(
    house: House, key: str
) -> None:
    for how in ("exit", "memory"):
        house.site.send(endings.ending, f"{key}-{how}", how)
    for how in ("exit", "memory"):
        assert house.site.rows.wait_for(f"{key}-{how}", State.FAILED).attempts == 1
    house.site.broker.wait_until_empty()
    assert house.worker.is_alive


def test_reserved_work_that_the_broker_never_got_is_sent_by_the_sweeper(house: House, key: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relay, "_closed_until", time.monotonic() + 60)  # as after a failure
        call = ordering.delay(key)
    assert house.site.broker.waiting() == 0
    row = house.site.rows.wait_for(key, State.SUCCEEDED)
    assert (row.task_id, row.attempts) == (call.id, 1)
    assert len(house.site.rows.effects(key)) == 1


def test_a_revoked_call_that_waits_in_the_ledger_is_cancelled(house: House, key: str) -> None:
    call = ordering.apply_async((key,), countdown=3600)
    revoke(house.site, call.id)
    assert house.site.rows.wait_for(key, State.CANCELLED).attempts == 0


def test_a_cancelled_body_cannot_complete(house: House, key: str) -> None:
    site = house.site
    call = site.send(tasks.skipping, key, gated=True)
    site.journal.started(key)
    assert tasks.skipping.cancel(task_id=call.id) == "cancelled"
    site.journal.open(f"{key}.1")
    site.journal.wait_for("refused", key)
    site.broker.wait_until_empty()
    assert site.rows.row(key).state == State.CANCELLED
    assert site.rows.effects(key) == []


def test_connections_do_not_grow_with_the_number_of_tasks(house: House, key: str) -> None:
    site = house.site
    places = 4 if house.runs_several else 1
    keys = [f"{key}-{number}" for number in range(3 * places)]
    for each in keys:
        site.send(tasks.connected, each)
    for each in keys:
        site.rows.wait_for(each, State.SUCCEEDED)
    site.broker.wait_until_empty()
    kept = 0 if house.pool == "gevent" else places  # a greenlet ends with its task, a thread does not
    eventually(
        lambda: len(backends()) <= kept + 2,
        "one connection a thread, the sweeper's and the worker's own",
        within=10,
    )
    if house.pool != "gevent":
        assert len({site.rows.stored(each) for each in keys}) <= places
