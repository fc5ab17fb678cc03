"""The broker or the result backend goes away while a body runs: it is not run twice, and nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from redis import Redis

from django_idempotent_tasks.states import State
from example_project.servers import Server, start_broker
from tests.deaths.leased.verdicts import done_once, next_attempt
from tests.sample import death
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker
from tests.support.workers.site import Pair, Site
from tests.support.workers.sites import on_broker

pytestmark = pytest.mark.process

CANCELLING = {
    "PROJ_CELERY": json.dumps({"worker_cancel_long_running_tasks_on_connection_loss": True}),
    "PROJ_VISIBILITY_TIMEOUT": "2",
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A broker that may lose its connections and its life."""
    with start_broker() as server:
        yield server


@pytest.fixture(scope="module")
def frail_site(own_site: Site, server: Server) -> Iterator[Site]:
    """Two workers on that broker: ``plain`` with Celery's defaults, and ``cancelling``.

    That one ends bodies at a lost connection, and gets what it did not acknowledge again after two seconds.
    """
    # Two children: with every one busy Celery does not notice that its connection is gone.
    common = ("--concurrency", "2")
    nowhere = {"PROJ_RESULT_BACKEND": "disabled://"}
    with on_broker(own_site, server.url) as frail:
        plain = frail.worker("plain", *common, **nowhere)
        cancelling = frail.worker("cancelling", *common, "--queues", "cancelling", **nowhere, **CANCELLING)
        Pair(plain, cancelling).ready()
        yield frail


def worker_of(site: Site, name: str) -> Worker:
    """One of the workers."""
    return next(worker for worker in site.workers if worker.name == name)


def cut_connections(server: Server) -> None:
    """Close every connection from the broker's side."""
    with Redis.from_url(server.url) as client:
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


def wait_for_a_copy(site: Site, name: str, call: str) -> None:
    """Wait until a worker has received the message of a call a second time."""
    log = worker_of(site, name)
    eventually(lambda: log.text().count(f"[{call}] received") >= 2, "a copy is delivered")


def test_a_message_that_becomes_visible_again_while_its_body_runs_is_not_run_twice(
    frail_site: Site, key: str
) -> None:
    site = frail_site
    call = site.send(death.brief, key, ["wait"], options={"queue": "cancelling"}).id
    site.journal.started(key)
    wait_for_a_copy(site, "cancelling", call)
    site.journal.open(f"{key}.1")

    done_once(site, key, attempts=1, crashes=0)
    assert site.journal.starts(key) == 1


def test_a_body_whose_connection_to_the_broker_is_cut_is_not_run_twice(
    frail_site: Site, server: Server, key: str
) -> None:
    site = frail_site
    call = site.send(death.brief, key, ["wait"]).id
    site.journal.started(key)
    cut_connections(server)
    wait_for_a_copy(site, "plain", call)
    site.journal.open(f"{key}.1")

    done_once(site, key, attempts=1, crashes=0)
    assert site.journal.starts(key) == 1


def test_a_body_that_is_cancelled_because_its_connection_was_cut_runs_again(
    frail_site: Site, server: Server, key: str
) -> None:
    site = frail_site
    site.send(death.acting, key, ["wait"], options={"queue": "cancelling"})
    site.journal.started(key)
    cut_connections(server)

    site.journal.wait_for("told to stop", key)
    next_attempt(site, key, died=False)
    done_once(site, key, attempts=2, crashes=0)
    assert site.journal.starts(key) == 2


def test_a_body_that_completes_while_the_broker_is_down_is_not_run_again(
    frail_site: Site, server: Server, key: str
) -> None:
    site = frail_site
    raw = site.park(death.acting, key, ["wait"])
    site.broker.deliver(raw)
    site.journal.started(key)
    server.kill()
    site.broker.close()
    worker_of(site, "plain").wait_for_log("Connection to broker lost")
    site.journal.open(f"{key}.1")
    site.rows.wait_for(key, State.SUCCEEDED)

    server.restart()
    site.broker.deliver(raw, redelivered=True)
    done_once(site, key, attempts=1, crashes=0)
    assert site.journal.starts(key) == 1


def test_a_retry_that_is_asked_for_while_the_broker_is_down_is_sent_when_it_is_back(
    frail_site: Site, server: Server, key: str
) -> None:
    site = frail_site
    site.send(death.brief, key, ["retry after the gate"])
    site.journal.started(key)
    server.kill()
    site.broker.close()
    site.journal.open(f"{key}.1")
    worker_of(site, "plain").wait_for_log("its retry was not sent")
    assert site.rows.row(key).state == State.RETRY

    server.restart()
    done_once(site, key, attempts=2, crashes=0)
    assert site.journal.starts(key) == 2


def test_a_result_that_the_backend_missed_is_reported_by_the_next_delivery(own_site: Site, key: str) -> None:
    site = own_site
    raw = site.park(death.acting, key, ["wait"])
    call = json.loads(raw)["headers"]["id"]
    with start_broker() as backend, site.running("reporting", PROJ_RESULT_BACKEND=backend.url):
        site.broker.deliver(raw)
        site.journal.started(key)
        backend.kill()
        site.journal.open(f"{key}.1")
        done_once(site, key, attempts=1, crashes=0)
        backend.restart()
        assert reported(backend, call) is None

        site.broker.deliver(raw, redelivered=True)
        report = eventually(lambda: reported(backend, call), "the result is reported")
    assert (report["status"], report["result"]) == ("SUCCESS", {"key": key, "attempt": 1})
    assert site.journal.starts(key) == 1


def reported(backend: Server, call: str) -> dict[str, object] | None:
    """What the result backend says of a call, or None."""
    with Redis.from_url(backend.url) as client:
        names = list(client.scan_iter(f"*celery-task-meta-{call}"))
        return json.loads(client.get(names[0]) or "null") if names else None
