"""Redis stops under a worker, for a second or a minute: the worker goes on, and every call is done once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from celery.result import AsyncResult

from django_idempotent_tasks.ledger.outage import LEDGER
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.states import State
from example_project.servers import Server, start_broker
from tests.sample import tasks
from tests.support.brokers.broker import QUEUE
from tests.support.brokers.control import LISTENING
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site
from tests.support.workers.sites import on_broker

pytestmark = pytest.mark.process

#: Seconds for which Redis is away.
OUTAGES = [1, 10, pytest.param(60, marks=pytest.mark.slow)]
#: Seconds after which Redis delivers again what a worker had and has not acknowledged.
VISIBILITY = 10
#: From a broker that is back to a call that is done: Celery's pause between its tries grows to 30 s.
BACK_WITHIN = 90.0
#: A worker that is told to stop with nothing left to do, while its broker is away.
STOPPED_WITHIN = 40.0


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A broker that keeps its messages when it stops."""
    with start_broker(persistent=True) as server:
        yield server


@pytest.fixture(scope="module")
def frail_site(own_site: Site, server: Server) -> Iterator[Site]:
    """Everything but the broker is as usual."""
    with on_broker(own_site, server.url) as frail:
        yield frail


@contextmanager
def running(site: Site, name: str, *, queue: str = QUEUE) -> Iterator[Worker]:
    """A worker with two children that fetches more than it can run."""
    with site.running(
        name,
        *("--concurrency", "2", "--prefetch-multiplier", "4", "--queues", queue),
        PROJ_RESULT_BACKEND="disabled://",
        PROJ_VISIBILITY_TIMEOUT=str(VISIBILITY),
        PROJ_CELERY=json.dumps(LISTENING),  # by default it does, and the fault needs that second channel
    ) as worker:
        yield worker


@pytest.fixture(scope="module")
def worker(frail_site: Site) -> Iterator[Worker]:
    """The worker that has to outlive all of it."""
    with running(frail_site, "enduring") as worker:
        yield worker


def stop(site: Site) -> None:
    """Let Redis end in an orderly way, with all that it has on its disk."""
    site.broker.client.shutdown(save=False)
    site.broker.close()


def start(site: Site, server: Server) -> None:
    """Let Redis begin again with what it had."""
    server.restart()
    site.broker.close()


def received(worker: Worker, call: AsyncResult[Any]) -> None:
    """Wait until the worker has a call's message."""
    worker.wait_for_log(f"[{call.id}] received")


def done(site: Site, *keys: str) -> None:
    """Every call is done, each by one run."""
    for each in keys:
        row = site.rows.wait_for(each, State.SUCCEEDED, within=BACK_WITHIN)
        assert (len(site.rows.effects(each)), site.journal.starts(each)) == (1, 1), each
        assert (row.attempts, row.crashes) == (1, 0), each
    site.broker.wait_until_empty(within=BACK_WITHIN)


@pytest.mark.parametrize("seconds", OUTAGES)
def test_a_worker_outlives_a_stop_of_its_broker_with_running_fetched_and_later_calls(
    frail_site: Site, server: Server, worker: Worker, key: str, seconds: int
) -> None:
    site = frail_site
    during, after, fetched, later, new = (
        f"{key}-{what}" for what in ("during", "after", "fetched", "later", "new")
    )
    for each in (during, after):
        site.send(tasks.patient, each, gated=True)
        site.journal.started(each)
    received(worker, site.send(tasks.skipping, fetched))
    received(worker, site.send(tasks.skipping, later, options={"countdown": 8}))
    eventually(lambda: site.rows.is_led_by(worker), "the sweeper leads")

    stopped = time.monotonic()
    stop(site)
    site.journal.open(f"{during}.1")
    site.rows.wait_for(during, State.SUCCEEDED)
    time.sleep(seconds)  # the outage itself
    start(site, server)
    site.journal.open(f"{after}.1")

    site.send(tasks.skipping, new)
    done(site, during, after, fetched, later, new)
    eventually(lambda: site.rows.is_led_by(worker), "the sweeper leads again")
    answered = get_store(site.rows.alias).led_for(LEDGER)
    assert answered is not None
    assert answered > time.monotonic() - stopped, "an outage of the broker was taken for one of the ledger"
    eventually(lambda: site.rows.is_led_by(worker), "its sweeper leads again")
    assert worker.is_alive


def test_an_idle_worker_outlives_a_stop_of_its_broker(
    frail_site: Site, server: Server, worker: Worker, key: str
) -> None:
    stop(frail_site)
    time.sleep(1)  # the outage itself
    start(frail_site, server)

    frail_site.send(tasks.skipping, key)
    done(frail_site, key)
    assert worker.is_alive


def test_a_worker_whose_broker_stops_while_it_stops_ends_and_its_calls_are_done_elsewhere(
    frail_site: Site, server: Server, key: str
) -> None:
    site, fetched, own = frail_site, f"{key}-fetched", {"queue": key}
    with running(site, "stopping", queue=key) as worker:
        for each in (key, f"{key}-beside"):
            site.send(tasks.patient, each, gated=True, options=own)
            site.journal.started(each)
        received(worker, site.send(tasks.skipping, fetched, options=own))
        worker.terminate()
        worker.wait_for_log("Warm shutdown")
        stop(site)
        site.journal.open(f"{key}.1", f"{key}-beside.1")

        worker.wait(within=STOPPED_WITHIN)
    start(site, server)
    with running(site, "heir", queue=key):
        done(site, key, f"{key}-beside", fetched)
