"""``SYNC_FALLBACK`` beside living workers: whoever runs a key, it runs once."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from django_idempotent_tasks.states import State
from tests.sample import tasks
from tests.support.waiting import eventually
from tests.support.workers.reserving import sending_to
from tests.support.workers.site import Pair, Site

pytestmark = pytest.mark.process

CALLERS = 3
KEYS = 12


def test_going_there_and_back_loses_and_doubles_nothing(site: Site, pair: Pair, key: str) -> None:
    keys = [f"{key}-{number}" for number in range(KEYS)]
    for number, each in enumerate(keys):
        with sending_to(site, SYNC_FALLBACK=bool(number % 2)):
            first = tasks.returning.submit((each,))
        with sending_to(site, SYNC_FALLBACK=not number % 2):
            again = tasks.returning.submit((each,))
        assert (first.created, again.created) == (True, False)

    for each in keys:
        row = site.rows.wait_for(each, State.SUCCEEDED)
        assert (row.attempts, row.crashes) == (1, 0)
        assert len(site.rows.effects(each)) == 1
    workers = {pid for worker in pair.workers for pid in worker.children()}
    places = [site.journal.started(each)["pid"] in workers for each in keys]
    assert places == [number % 2 == 0 for number in range(KEYS)]


@pytest.mark.usefixtures("pair")
def test_callers_that_run_and_callers_that_send_at_once_run_a_key_once(site: Site, key: str) -> None:
    created: list[bool] = []

    def call(barrier: threading.Barrier, each: str) -> None:
        barrier.wait()
        created.append(tasks.returning.submit((each,)).created)
        connection.close()

    keys = [f"{key}-{number}" for number in range(KEYS)]
    for number, each in enumerate(keys):
        barrier = threading.Barrier(CALLERS)
        with sending_to(site, SYNC_FALLBACK=bool(number % 2)):
            callers = [threading.Thread(target=call, args=(barrier, each)) for _ in range(CALLERS)]
            for caller in callers:
                caller.start()
            for caller in callers:
                caller.join()

    assert sum(created) == KEYS
    for each in keys:
        assert site.rows.wait_for(each, State.SUCCEEDED).attempts == 1
        assert len(site.rows.effects(each)) == 1


@pytest.mark.usefixtures("pair")
def test_a_copy_that_reaches_a_worker_while_the_caller_runs_does_not_run(site: Site, key: str) -> None:
    other = site.park(tasks.returning, key)

    def run() -> None:
        tasks.returning.submit((key,), {"gated": True})
        connection.close()

    with sending_to(site, SYNC_FALLBACK=True):
        caller = threading.Thread(target=run)
        caller.start()
        start = site.journal.started(key)
        site.broker.deliver(other)
        eventually(lambda: site.rows.refusals(key), "a worker has refused the copy")
        site.journal.open(f"{key}.1")
        caller.join()

    assert site.rows.wait_for(key, State.SUCCEEDED).attempts == 1
    assert site.rows.refusals(key) == ["in_progress"]
    assert [each["pid"] for each in site.journal.read("started", key)] == [start["pid"]]
