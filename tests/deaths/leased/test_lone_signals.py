"""A child is told to end and its worker is not: that is a death, counted and bounded, however polite."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

import pytest

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import Reason, State
from tests.deaths.leased.verdicts import done_once, next_attempt
from tests.deaths.verdicts import NEXT_CLAIM_WITHIN, stamp
from tests.sample import atomic, death
from tests.support.brokers.control import LISTENING, command_to
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

pytestmark = pytest.mark.process

#: How an out-of-memory daemon, a person or a body may end a child. Each is heard of by the parent alone.
ENDINGS = ["signal SIGTERM", "signal SIGHUP", "signal SIGQUIT", "leave with 15", "leave with 0"]
MODES = {"leased": (death.delicate, "{}"), "atomic": (atomic.delicate, "written: {}")}
#: What the hard limit strikes whose message comes back.
TIMED = {
    "leased": (death.delicately_requeued_on_timeout, "wait"),
    "atomic": (atomic.delicately_requeued_on_timeout, "written: wait"),
}
MAX_CRASHES = 2


def poisoned(site: Site, key: str) -> IdempotencyKey:
    """Failed after as many starts as its task allows, the second wait longer than the first; no effect."""
    row = site.rows.wait_for(key, State.FAILED, within=60)
    assert (row.reason, row.crashes) == (Reason.POISON, MAX_CRASHES)
    first, second = (entry["at"] for entry in site.journal.read("started", key))
    assert second - first < NEXT_CLAIM_WITHIN
    assert stamp(row.finished_at) - second >= 2
    assert site.rows.effects(key) == []
    return row


@pytest.mark.parametrize("mode", MODES)
def test_a_body_whose_children_are_told_to_end_is_started_as_often_as_its_task_says(
    site: Site, family: Worker, key: str, mode: str
) -> None:
    task, plan = MODES[mode]
    for ending in ENDINGS:
        site.send(task, f"{key}-{ending}", [plan.format(ending)] * 9)

    for ending in ENDINGS:
        poisoned(site, f"{key}-{ending}")
    site.broker.wait_until_empty()
    assert family.is_alive


@pytest.mark.parametrize("mode", TIMED)
def test_a_body_that_the_hard_limit_ends_again_and_again_is_started_as_often_as_its_task_says(
    site: Site, family: Worker, key: str, mode: str
) -> None:
    task, plan = TIMED[mode]
    site.send(task, key, [plan] * 9, options={"time_limit": 1})

    poisoned(site, key)
    site.broker.wait_until_empty()
    assert family.is_alive


def test_a_child_that_is_told_to_end_alone_is_followed_within_six_seconds_and_has_crashed(
    site: Site, family: Worker, key: str
) -> None:
    site.send(death.acting, key, ["wait"])
    victim = site.journal.started(key)["pid"]
    told = time.time()
    os.kill(victim, signal.SIGTERM)

    assert next_attempt(site, key, died=True)["at"] - told < NEXT_CLAIM_WITHIN
    row = done_once(site, key, attempts=2, crashes=1)
    assert row.task_id == site.journal.started(key)["task_id"]
    assert family.is_alive


def test_a_signal_that_is_remapped_to_stop_children_counts_where_it_strikes_one(
    own_site: Site, key: str
) -> None:
    site = own_site
    with site.running("remapped", "--concurrency", "1", REMAP_SIGTERM="SIGQUIT") as worker:
        site.send(death.delicate, key, ["signal SIGQUIT"] * 9)

        poisoned(site, key)
        assert worker.is_alive


@pytest.mark.parametrize("deed", ["raise KeyboardInterrupt", "raise WorkerShutdown"])
@pytest.mark.parametrize("pool", ["prefork", "solo", "threads"])
def test_a_body_that_raises_what_stops_a_worker_has_failed_and_its_worker_goes_on(
    own_site: Site, key: str, pool: str, deed: str
) -> None:
    site = own_site
    with site.running(f"{pool}", "--pool", pool, "--concurrency", "1") as worker:
        site.send(death.acting, key, [deed] * 9)

        row = site.rows.wait_for(key, State.FAILED)
        assert ("TaskExit" in (row.result or ""), row.crashes) == (True, 0)
        site.broker.wait_until_empty()
        assert site.journal.starts(key) == 1
        assert worker.is_alive


CONTROLS: dict[str, Any] = {
    "pool_restart": {"reload": False},
    "pool_shrink": {"n": 3},
    "pool_grow": {"n": 1},
}


def test_a_pool_that_is_restarted_shrunk_or_grown_counts_nothing(own_site: Site, key: str) -> None:
    site, celery = own_site, json.dumps(LISTENING | {"worker_pool_restarts": True})
    keys = {f"{key}-{command}": command for command in CONTROLS}
    with site.running("managed", "--concurrency", "4", PROJ_CELERY=celery) as worker:
        for each, command in keys.items():
            site.send(death.acting, each, ["wait"])
            site.journal.started(each)
            asked = command_to(site, command, **CONTROLS[command])
            assert "ok" in str(asked), asked
            site.journal.open(f"{each}.1")
            done_once(site, each, attempts=1, crashes=0)
        eventually(lambda: worker.is_alive, "it goes on")


def test_children_that_are_recycled_count_nothing(own_site: Site, key: str) -> None:
    site, keys = own_site, [f"{key}-{number}" for number in range(6)]
    arguments = ("--concurrency", "2", "--max-tasks-per-child", "1", "--max-memory-per-child", "1")
    with site.running("recycling", *arguments):
        for each in keys:
            site.send(death.acting, each, [])
        for each in keys:
            done_once(site, each, attempts=1, crashes=0)
        assert len({site.journal.started(each)["pid"] for each in keys}) == len(keys)
