"""A dead letter that is redriven: the same work from its start, once, whatever else happens to it."""

from __future__ import annotations

from typing import Any

import pytest

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.models import DeadLetter, IdempotencyKey
from django_idempotent_tasks.operations.dead_letters import Decision, discard, redrive
from django_idempotent_tasks.states import State
from tests.sample import failures
from tests.support.waiting import eventually
from tests.support.workers import processes
from tests.support.workers.site import Site

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("crew")]


def dead(site: Site, key: str) -> IdempotencyKey:
    """The dead letter of a key, once it is one."""
    rows = DeadLetter.objects.using(site.rows.alias).filter(key_text=f"key={key}")
    row: IdempotencyKey = eventually(rows.first, f"{key} is a dead letter")
    return row


def redriven(site: Site, row: IdempotencyKey, by: str = "ann") -> Decision:
    return redrive(get_store(site.rows.alias), row, by=by)


def runs(site: Site, key: str) -> list[tuple[int, int]]:
    """The attempt and the retries of each run; of one that begins just now only the first may be written."""
    retries = [entry["retries"] for entry in site.journal.read("run", key)]
    return list(zip((entry["attempt"] for entry in site.journal.read("started", key)), retries, strict=False))


def test_a_redrive_that_fails_again_is_one_dead_letter_and_the_next_one_succeeds(
    site: Site, key: str
) -> None:
    site.send(failures.working, key, ["fail"] * 6)
    assert redriven(site, dead(site, key), by="ann").done
    first_round = [(1, 0), (2, 1), (3, 2)]
    eventually(lambda: len(runs(site, key)) == 6, "the second round")
    assert runs(site, key) == first_round * 2
    again = dead(site, key)
    assert DeadLetter.objects.using(site.rows.alias).filter(key_text=f"key={key}").count() == 1
    assert (again.attempts, again.generation, len(site.rows.failed(key))) == (3, 1, 6)

    assert redriven(site, again).done
    row = site.rows.wait_for(key, State.SUCCEEDED)
    assert (row.task_id, row.attempts) == (again.task_id, 1)
    assert len({entry["downstream"] for entry in site.journal.read("started", key)}) == 1
    assert len(site.rows.effects(key)) == 1


def test_of_two_operators_who_redrive_the_same_dead_letter_one_does(site: Site, key: str) -> None:
    site.send(failures.working, key, ["permanent"])
    row = dead(site, key)
    first, second = redriven(site, row), redriven(site, row, by="bob")
    assert (first.done, second.done) == (True, False)
    assert "moved on" in second.problem
    site.rows.wait_for(key, State.SUCCEEDED)
    site.broker.wait_until_empty()
    assert (site.journal.starts(key), len(site.rows.effects(key))) == (2, 1)


def test_a_redrive_while_the_original_message_is_still_in_the_queue_runs_once(site: Site, key: str) -> None:
    busy = [f"{key}-busy-{number}" for number in range(2)]
    raw = site.park(failures.working, key, ["permanent"])
    site.broker.deliver(raw)
    row = dead(site, key)
    for each in busy:
        site.send(failures.working, each, ["wait"])
        site.journal.started(each)
    site.broker.deliver(raw, redelivered=True, times=2)
    assert redriven(site, row).done
    eventually(lambda: site.rows.row(key).sends == 0, "the redriven message is sent")
    site.journal.open(*(f"{each}.1" for each in busy))
    site.rows.wait_for(key, State.SUCCEEDED)
    site.broker.wait_until_empty()
    assert (site.journal.starts(key), len(site.rows.effects(key))) == (2, 1)


def test_what_was_discarded_is_not_run_by_a_message_that_arrives_later(site: Site, key: str) -> None:
    raw = site.park(failures.working, key, ["permanent"])
    site.broker.deliver(raw)
    assert discard(get_store(site.rows.alias), dead(site, key), by="ann").done
    site.broker.deliver(raw, redelivered=True, times=3)
    site.broker.wait_until_empty()
    row = site.rows.row(key)
    assert (row.state, site.journal.starts(key), row.discarded_at is None) == (State.FAILED, 1, False)
    assert len(site.rows.failed(key)) == 1

    site.send(failures.working, key, [])  # new work may have the key
    site.rows.wait_for(key, State.SUCCEEDED)


def test_a_worker_that_is_killed_in_a_redriven_run_is_followed_by_another(site: Site, key: str) -> None:
    site.send(failures.working, key, ["permanent", "wait"])
    assert redriven(site, dead(site, key), by="ann").done
    entry: Any = site.journal.wait_for("run", key, count=2)
    processes.kill(entry["pid"])
    row = site.rows.wait_for(key, State.SUCCEEDED)
    assert (row.attempts, row.crashes, len(site.rows.effects(key))) == (2, 1, 1)
    assert [job.error.rpartition(".")[2] for job in site.rows.failed(key)] == [
        "PermanentError",
        "WorkerLostError",
    ]
