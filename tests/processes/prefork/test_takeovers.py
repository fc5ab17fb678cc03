"""An owner that stops or dies loses its key to another worker, and can no longer complete it."""

from __future__ import annotations

import pytest

from django_idempotent_tasks.states import State
from tests.sample import tasks
from tests.support.results import result_of
from tests.support.waiting import eventually
from tests.support.workers import processes
from tests.support.workers.site import Pair, Site

pytestmark = pytest.mark.process


def test_a_paused_owner_is_taken_over_and_its_completion_is_refused(site: Site, pair: Pair, key: str) -> None:
    call = site.send(tasks.skipping, key, gated=True).id
    first = site.journal.started(key)
    processes.pause(first["pid"])

    second = site.journal.started(key, attempt=2)
    assert second["previous_attempt_died"] is True
    assert second["token"] > first["token"]
    assert second["downstream"] == first["downstream"]
    assert site.owner(second) is pair.other(site.owner(first))
    site.journal.open(f"{key}.1", f"{key}.2")
    site.rows.wait_for(key, State.SUCCEEDED)

    processes.resume(first["pid"])
    assert site.journal.wait_for("refused", key)["attempt"] == 1
    site.broker.wait_until_empty()
    assert [(effect.attempt, effect.token) for effect in site.rows.effects(key)] == [(2, second["token"])]
    assert site.rows.row(key).token == second["token"]
    assert result_of(call) == {"key": key, "attempt": 2}


def test_a_paused_owner_that_goes_on_first_is_refused_while_the_other_still_runs(
    site: Site, pair: Pair, key: str
) -> None:
    site.send(tasks.skipping, key, gated=True)
    first = site.journal.started(key)
    processes.pause(first["pid"])
    second = site.journal.started(key, attempt=2)
    assert pair.workers

    site.journal.open(f"{key}.1")
    processes.resume(first["pid"])
    assert site.journal.wait_for("refused", key)["attempt"] == 1
    assert site.rows.row(key).state == State.RUNNING
    assert not site.rows.effects(key)

    site.journal.open(f"{key}.2")
    site.rows.wait_for(key, State.SUCCEEDED)
    assert [effect.token for effect in site.rows.effects(key)] == [second["token"]]


@pytest.mark.usefixtures("pair")
def test_a_killed_owner_is_taken_over_and_the_next_attempt_knows_it(site: Site, key: str) -> None:
    call = site.send(tasks.skipping, key, gated=True).id
    first = site.journal.started(key)
    assert (first["attempt"], first["previous_attempt_died"]) == (1, False)
    processes.kill(first["pid"])

    second = site.journal.started(key, attempt=2)
    assert second["previous_attempt_died"] is True
    assert second["downstream"] == first["downstream"]
    site.journal.open(f"{key}.2")
    row = site.rows.wait_for(key, State.SUCCEEDED)
    assert (row.attempts, row.crashes) == (2, 1)
    assert result_of(call) == {"key": key, "attempt": 2}
    assert len(site.rows.effects(key)) == 1
    site.broker.wait_until_empty()


@pytest.mark.usefixtures("pair")
def test_a_stopped_owner_blocks_its_key_for_a_lease_and_not_for_the_retention(site: Site, key: str) -> None:
    site.send(tasks.patient, key, gated=True)  # whose lease is longer than a slow machine takes for all this
    first = site.journal.started(key)
    processes.pause(first["pid"])
    refused = site.send(tasks.patient, key).id

    assert result_of(refused)["task_id"] == first["task_id"], "the answer names who holds the key"
    site.journal.open(f"{key}.2")
    assert site.rows.wait_for(key, State.SUCCEEDED).attempts == 2


def test_each_task_has_its_own_lease(own_site: Site, key: str) -> None:
    site, names = own_site, {tasks.skipping: f"{key}-short", tasks.patient: f"{key}-long"}
    with site.running("crowd", "--concurrency", "3"):
        for task, name in names.items():
            site.send(task, name, gated=True)
            processes.pause(site.journal.started(name)["pid"])

        site.journal.open(*(f"{name}.2" for name in names.values()))
        waits = [
            site.journal.started(name, attempt=2)["at"] - site.journal.started(name)["at"]
            for name in names.values()
        ]
    assert waits[0] < 5.9 < waits[1]


def test_an_owner_that_held_the_interpreter_lock_is_fenced(site: Site, pair: Pair, key: str) -> None:
    site.send(tasks.deaf, key)
    first = site.journal.started(key)

    second = site.journal.started(key, attempt=2)
    assert site.owner(second) is pair.other(site.owner(first))
    assert site.journal.wait_for("refused", key)["attempt"] == 1
    row = site.rows.wait_for(key, State.SUCCEEDED)
    assert (row.attempts, row.crashes) == (2, 1)
    assert [effect.attempt for effect in site.rows.effects(key)] == [2]


@pytest.mark.usefixtures("pair")
def test_a_body_ended_by_the_hard_time_limit_does_not_block_its_key(site: Site, key: str) -> None:
    site.send(tasks.endless, key)
    site.journal.started(key)

    def call_again() -> bool:
        site.send(tasks.endless, key)
        return site.journal.starts(key) > 1

    eventually(call_again, "a new call runs", every=0.5)
