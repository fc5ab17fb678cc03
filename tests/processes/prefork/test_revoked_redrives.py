"""What a person redrives is run, whatever the workers remember; what is revoked after that is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.operations import dead_letters
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.sweep import sweep_once
from tests.processes.programs.test_idem_command import QUIET
from tests.sample import death
from tests.sample.celery import app
from tests.support.brokers.control import LISTENING
from tests.support.waiting import eventually
from tests.support.workers.processes import MINGLES, Worker
from tests.support.workers.reserving import sending_to
from tests.support.workers.site import Site

pytestmark = pytest.mark.process


def listening(site: Site, name: str) -> Worker:
    """A worker that hears of revokes, also of earlier ones, and leaves sweeping to the test."""
    environment = {"PROJ_CELERY": json.dumps(LISTENING), "PROJ_IDEMPOTENT_TASKS": QUIET}
    return site.worker(name, "--concurrency", "1", MINGLES, **environment)


@pytest.fixture
def workers(own_site: Site) -> Iterator[list[Worker]]:
    with sending_to(own_site):
        workers = [listening(own_site, name).launch() for name in ("first", "second")]
        for worker in workers:
            worker.wait_until_ready()
        yield workers
        for worker in workers:
            worker.kill()


def buried_and_revoked(site: Site, key: str, workers: list[Worker]) -> tuple[str, bytes]:
    """A dead letter whose id both workers take for revoked; the id, and a copy of its message."""
    call = death.acting.apply_async((key, ["raise"]), queue=site.broker.parked).id
    raw = site.broker.take_parked()
    site.broker.deliver(raw)
    site.rows.wait_for(key, State.FAILED)
    revoke(call, workers)
    return call, raw


def revoke(call: str, workers: list[Worker]) -> None:
    """Returns when each of them has heard of it and told the ledger."""
    answers = app.control.revoke(call, reply=True, limit=len(workers), timeout=30)
    assert answers is not None
    assert len(answers) == len(workers)


def told(site: Site, name: str) -> Worker:
    """A worker that the others have told of revokes: at its start it asks them, and listens for a second."""
    worker = listening(site, name)

    def is_told() -> bool:
        worker.kill()
        return "mingle: sync complete" in worker.start().text()

    eventually(is_told, "the others have answered in time", within=90)
    return worker


def redrive(site: Site, key: str, *plan: str) -> None:
    edited: Any = ([key, list(plan)], {})
    assert dead_letters.redrive(get_store(), site.rows.row(key), by="ann", edited=edited).done


def sweep() -> None:
    sweep_once(app, get_store())


@pytest.mark.parametrize("memory", ["heard", "told by another worker"])
def test_a_redriven_call_is_run_by_workers_that_remember_its_revoke(
    own_site: Site, workers: list[Worker], key: str, memory: str
) -> None:
    call, stale = buried_and_revoked(own_site, key, workers)
    redrive(own_site, key, "retry")
    if memory != "heard":
        workers.append(told(own_site, "third"))
        for worker in workers[:2]:
            worker.kill()
    own_site.broker.deliver(stale)
    own_site.broker.wait_until_empty()
    if memory != "heard":
        workers[2].wait_for_log(f"Discarding revoked task: {death.acting.name}[{call}]")
    assert own_site.rows.row(key).state == State.PENDING, "a copy from before the redrive cancelled it"

    sweep()
    row = own_site.rows.wait_for(key, State.SUCCEEDED)
    own_site.broker.wait_until_empty()
    assert (row.attempts, len(own_site.rows.effects(key))) == (2, 1)


@pytest.mark.parametrize("when", ["it waits", "it runs"])
def test_a_call_that_is_revoked_after_its_redrive_is_run_no_more_and_keeps_its_message(
    own_site: Site, workers: list[Worker], key: str, when: str
) -> None:
    call, _ = buried_and_revoked(own_site, key, workers)
    redrive(own_site, key, "retry after the gate")
    if when == "it runs":
        sweep()
        own_site.journal.wait_for("started", key, count=2)
    revoke(call, workers)
    own_site.journal.open(f"{key}.1")
    row = own_site.rows.wait_for(key, State.CANCELLED)
    own_site.broker.wait_until_empty()
    assert row.message is not None
    assert own_site.journal.starts(key) == (2 if when == "it runs" else 1)
    assert not own_site.rows.effects(key)
