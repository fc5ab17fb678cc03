"""Time limits of atomic runs: what the body wrote is gone, and the key says why."""

from __future__ import annotations

import json
import random

import pytest

from django_idempotent_tasks.states import State
from tests.deaths.atomic.verdicts import done_once, next_start, undone
from tests.sample import atomic
from tests.support.ledger.slow_server import COMMIT, COMPLETION, Server
from tests.support.results import result_of
from tests.support.staying import stays
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

pytestmark = pytest.mark.process

HARD, SOFT = {"time_limit": 1}, {"soft_time_limit": 1}


def test_bodies_ended_by_the_hard_limit_have_failed_although_their_transaction_was_open(
    site: Site, family: Worker, key: str
) -> None:
    plans = {
        f"{key}-{number}": f"written: {what}" for number, what in enumerate(("wait", "hold the interpreter"))
    }
    calls = {each: site.send(atomic.acting, each, [plan], options=HARD).id for each, plan in plans.items()}

    for each, call in calls.items():
        row = undone(site, each, State.FAILED, starts=1)
        assert "TimeLimitExceeded" in (row.result or "")
        assert type(result_of(call)).__name__ == "TimeLimitExceeded"
    assert family.is_alive


def test_a_copy_of_a_call_that_the_hard_limit_ended_does_not_run(
    site: Site, family: Worker, key: str
) -> None:
    site._send(atomic.acting, (key, ["written: wait"]), {}, {"queue": site.broker.parked, **HARD})
    raw = site.broker.take_parked()
    site.broker.deliver(raw)
    undone(site, key, State.FAILED, starts=1)

    site.broker.deliver(raw, redelivered=True, times=2)
    undone(site, key, State.FAILED, starts=1)
    assert type(result_of(json.loads(raw)["headers"]["id"])).__name__ == "RecordedError"
    assert family.is_alive


def test_a_key_that_the_dead_childs_statement_still_holds_fails_as_soon_as_that_ends(
    site: Site, family: Worker, key: str
) -> None:
    server = Server(site.rows.alias)
    with server.holding_up(COMPLETION):
        call = site.send(atomic.acting, key, [], options=HARD).id
        server.wait_until_held_up()
        family.wait_for_log(f"Hard time limit (1s) exceeded for atomic.acting[{call}]")
        stays(lambda: site.rows.find(key) is None, "nobody gets past the lock", seconds=0.5)
        server.let_go()

        assert "TimeLimitExceeded" in (undone(site, key, State.FAILED, starts=1).result or "")
    assert family.is_alive


def test_a_commit_that_was_under_way_at_the_hard_limit_counts(site: Site, family: Worker, key: str) -> None:
    server = Server(site.rows.alias)
    with server.holding_up(COMMIT):
        call = site.send(atomic.acting, key, [], options=HARD).id
        server.wait_until_held_up()
        family.wait_for_log(f"Hard time limit (1s) exceeded for atomic.acting[{call}]")
        server.let_go()

        done_once(site, key, starts=1, crashes=0)
        stays(lambda: site.rows.row(key).state == State.SUCCEEDED, "it succeeded", seconds=1)
    assert family.is_alive


def test_a_body_whose_message_survives_the_hard_limit_runs_again_and_has_crashed(
    site: Site, family: Worker, key: str
) -> None:
    site.send(atomic.requeued_on_timeout, key, ["written: wait"], options=HARD)

    done_once(site, key, starts=2, crashes=1)
    assert family.is_alive


def test_a_body_ended_by_the_soft_limit_has_failed(site: Site, family: Worker, key: str) -> None:
    call = site.send(atomic.acting, key, ["written: wait"], options=SOFT).id

    assert "SoftTimeLimitExceeded" in (undone(site, key, State.FAILED, starts=1).result or "")
    assert type(result_of(call)).__name__ == "SoftTimeLimitExceeded"
    assert site.journal.started(key)["pid"] in family.children()


def test_a_body_ended_by_the_soft_limit_is_retried_where_the_task_says_so(
    site: Site, family: Worker, key: str
) -> None:
    site.send(atomic.persistent, key, ["written: wait"], options=SOFT)

    next_start(site, key, died=False)
    assert done_once(site, key, starts=2, crashes=0).attempts == 2
    assert family.is_alive


@pytest.mark.slow
def test_a_soft_limit_may_strike_at_any_moment_and_leaves_no_key_half_done(
    site: Site, family: Worker, key: str
) -> None:
    for child in range(8):
        site.send(atomic.acting, f"{key}-first-{child}", [])
    site.broker.wait_until_empty()
    moment = random.Random(7)
    keys = [f"{key}-{number}" for number in range(200)]
    for each in keys:
        site.send(atomic.acting, each, [], options={"soft_time_limit": moment.uniform(0.002, 0.06)})
    site.broker.wait_until_empty(within=60)

    rows = {each: row for each in keys if (row := site.rows.find(each))}
    assert {row.state for row in rows.values()} == {State.SUCCEEDED, State.FAILED}, "struck too early or late"
    for each in keys:
        succeeded = each in rows and rows[each].state == State.SUCCEEDED
        assert len(site.rows.effects(each)) == succeeded, each
    crashed = [each for each, row in rows.items() if row.crashes]
    assert {each: [(job.error, job.description) for job in site.rows.failed(each)] for each in crashed} == {}
    assert family.is_alive
