"""However a body ends, its key is settled once and the worker lives on."""

from __future__ import annotations

import json

import pytest
from celery import chain

from django_idempotent_tasks.states import Reason, State
from tests.sample import endings, tasks
from tests.support.waiting import eventually
from tests.support.workers.site import Pair, Site

pytestmark = pytest.mark.process

FAILURES = {
    "exit": "TaskExit",
    "interrupt": "TaskExit",
    "memory": "TaskMemoryError",
    "reject": "Reject",
    "unprintable": "Unprintable",
    "needy": "Needy",
    "local": "Local",
    "recursion": "RecursionError",
    "nul": "ValueError",
    "endless chain": "ValueError",
    "long message": "ValueError",
    "leaving": "Leaving",
    "nameless": "Nameless",
    "endless notes": "ValueError",
}


@pytest.mark.parametrize("how", FAILURES)
def test_a_failing_body_leaves_a_failed_key_with_its_error_and_a_living_worker(
    site: Site, pair: Pair, key: str, how: str
) -> None:
    site.send(endings.ending, key, how)

    row = site.rows.wait_for(key, State.FAILED)
    error = site.rows.stored(key)
    assert error["error"].endswith(FAILURES[how])
    assert len(error["message"]) <= 4096
    assert (row.attempts, row.crashes) == (1, 0)
    site.broker.wait_until_empty()
    assert site.journal.starts(key) == 1
    living = {pid for worker in pair.workers for pid in worker.children()}
    assert site.journal.started(key)["pid"] in living
    assert site.rows.row(key).token == row.token


@pytest.mark.usefixtures("pair")
def test_ignore_completes_the_key_without_a_result(site: Site, key: str) -> None:
    site.send(endings.ending, key, "ignore")

    row = site.rows.wait_for(key, State.SUCCEEDED)
    assert (row.reason, row.result, row.attempts) == (Reason.IGNORED, None, 1)
    site.broker.wait_until_empty()


@pytest.mark.usefixtures("pair")
def test_a_rejected_call_that_asks_to_be_requeued_runs_again_after_a_second(site: Site, key: str) -> None:
    site.send(endings.ending, key, "requeue")

    row = site.rows.wait_for(key, State.SUCCEEDED)
    starts = site.journal.read("started", key)
    assert [entry["attempt"] for entry in starts] == [1, 2]
    assert starts[1]["at"] - starts[0]["at"] >= 1
    assert row.attempts == 2
    site.broker.wait_until_empty()


@pytest.mark.usefixtures("pair")
def test_a_failed_call_keeps_its_arguments_in_full(site: Site, key: str) -> None:
    payload = [["x" * 2000, number, {"nested": [number] * 5}] for number in range(200)]
    site.send(endings.refusing, key, payload)

    row = site.rows.wait_for(key, State.FAILED)
    assert json.loads(row.message or "")["args"] == [key, payload]


@pytest.mark.usefixtures("pair")
def test_the_rest_of_a_chain_runs_once_though_its_first_part_died_after_completing(
    site: Site, key: str
) -> None:
    site.send(chain(endings.leading.s(key), endings.following.s()))

    site.journal.started(f"after {key}")
    site.broker.wait_until_empty()
    assert site.journal.starts(key) == 1
    assert site.journal.starts(f"after {key}") == 1
    assert len(site.rows.effects(key)) == 1


def test_a_body_that_kills_its_process_is_started_a_bounded_number_of_times(
    site: Site, pair: Pair, key: str
) -> None:
    parents = [worker.process.pid for worker in pair.workers]
    site.send(tasks.dying, key)

    row = site.rows.wait_for(key, State.FAILED, within=60)
    assert (row.reason, row.crashes) == (Reason.POISON, 3)
    assert "PoisonTask" in site.rows.stored(key)["error"]
    assert site.journal.starts(key) == 3
    site.broker.wait_until_empty()
    assert [worker.process.pid for worker in pair.workers if worker.is_alive] == parents
    site.send(tasks.skipping, f"{key}-after")
    site.rows.wait_for(f"{key}-after", State.SUCCEEDED)
    eventually(lambda: site.journal.starts(key) == 3, "no further start")
