"""The broker goes away while an atomic body runs, dies or asks for a retry: the ledger sends it again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from django_idempotent_tasks.states import State
from example_project.servers import Server, start_broker
from tests.deaths.atomic.verdicts import done_once, next_start, visitor
from tests.sample import atomic
from tests.sample.celery import app
from tests.support.workers import processes
from tests.support.workers.processes import Worker
from tests.support.workers.reserving import sending_to
from tests.support.workers.site import Site
from tests.support.workers.sites import on_broker

pytestmark = pytest.mark.process

OURS = {"REPUBLISH_AFTER": 3}
ENVIRONMENT = {"PROJ_RESULT_BACKEND": "disabled://", "PROJ_IDEMPOTENT_TASKS": json.dumps(OURS)}


@pytest.fixture
def server() -> Iterator[Server]:
    """A broker that loses everything when it is killed."""
    with start_broker(persistent=False) as server:
        yield server


@pytest.fixture
def frail_site(own_site: Site, server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site on that broker, to which this process sends what it reserves."""
    assert (
        app.conf.result_backend != server.url
    )  # the configuration is read at the first look, so before this
    monkeypatch.setenv("CELERY_BROKER_URL", server.url)
    with on_broker(own_site, server.url) as frail:
        with sending_to(frail, **OURS):
            yield frail
        frail.settle()


@pytest.fixture
def worker(frail_site: Site) -> Worker:
    """Two children: with every one busy Celery does not notice that its connection is gone."""
    return frail_site.worker(f"frail-{os.urandom(2).hex()}", "--concurrency", "2", **ENVIRONMENT).start()


def forget_everything(site: Site, server: Server) -> None:
    """Let the broker die and come back empty."""
    server.kill()
    server.restart()
    site.broker.close()
    assert site.broker.is_empty()


def test_a_reserved_call_whose_child_dies_with_the_broker_is_sent_again(
    frail_site: Site, server: Server, worker: Worker, key: str
) -> None:
    site = frail_site
    atomic.reserved.delay(key, ["written: wait"])
    victim = visitor(site, key)
    forget_everything(site, server)
    processes.kill(victim)

    next_start(site, key, died=True)
    done_once(site, key, starts=2, crashes=1, within=60)
    assert worker.is_alive


@pytest.mark.slow
def test_a_reserved_call_whose_worker_dies_with_the_broker_is_sent_again(
    frail_site: Site, server: Server, worker: Worker, key: str
) -> None:
    site = frail_site
    atomic.reserved.delay(key, ["written: wait"])
    visitor(site, key)
    worker.kill()
    forget_everything(site, server)
    assert site.rows.row(key).state == State.PENDING

    worker.start()
    next_start(site, key, died=False)
    done_once(site, key, starts=2, crashes=0, within=60)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["acting", "reserved"])
def test_a_retry_that_is_asked_for_while_the_broker_is_down_is_sent_when_it_is_back(
    frail_site: Site, server: Server, worker: Worker, key: str, name: str
) -> None:
    site = frail_site
    getattr(atomic, name).delay(key, ["written: wait and retry"])
    visitor(site, key)
    server.kill()
    site.broker.close()
    site.journal.open(f"{key}.1")
    worker.wait_for_log("its retry was not sent")
    row = site.rows.row(key)
    assert (row.state, row.crashes, site.rows.effects(key)) == (State.RETRY, 0, [])

    server.restart()
    next_start(site, key, died=False)
    done_once(site, key, starts=2, crashes=0, within=60)
