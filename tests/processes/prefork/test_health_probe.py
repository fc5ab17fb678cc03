"""``idem health worker`` sees through a worker that answers and takes nothing, and spares one that works."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator

import pytest

from django_idempotent_tasks.operations.health import worker as probe
from django_idempotent_tasks.operations.health.probe import Health
from django_idempotent_tasks.operations.health.worker import worker_health
from tests.sample.celery import app
from tests.support.brokers.control import LISTENING, command_to, ping
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker, pause
from tests.support.workers.reserving import charge
from tests.support.workers.site import Site

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("_sending")]

QUEUES = "celery,slow"


@pytest.fixture(scope="module")
def probed(own_site: Site) -> Iterator[Worker]:
    started = _worker(own_site, "probed")
    yield started.start()
    started.kill()


def _worker(site: Site, name: str, module: str = "tests.support.workers.reserving") -> Worker:
    words = ("--concurrency", "1", "--include", module, "-Q", QUEUES)
    return site.worker(name, *words, PROJ_CELERY=json.dumps(LISTENING))


def _probe(worker: Worker, *, within: float = 10.0, **options: object) -> Health:
    given: dict[str, object] = {"queues": None, "max_busy": None} | options
    return worker_health(app, f"{worker.name}@tests", within=within, **given)  # type: ignore[arg-type]


def _is_clean(site: Site) -> bool:
    """Whether no canary is left, in a queue or unacknowledged."""
    return not site.broker.waiting() and not site.broker.waiting("slow") and not site.broker.unacknowledged()


def test_an_idle_worker_is_well_and_nothing_is_left_behind(own_site: Site, probed: Worker) -> None:
    health = _probe(probed)
    assert health.problems == []
    assert health.facts["queues"] == ["celery", "slow"]
    assert own_site.broker.client.keys(f"{own_site.broker.prefix}*canary*") == []
    eventually(lambda: _is_clean(own_site), "no canary is left")


def test_a_queue_that_was_taken_from_it_is_named(own_site: Site, probed: Worker) -> None:
    command_to(own_site, "cancel_consumer", queue="slow")
    try:
        health = _probe(probed)
        assert len(health.problems) == 1
        assert "does not consume 'slow'" in health.problems[0]
        assert _probe(probed, queues=["celery"]).problems == [], "only that one is wanted"
    finally:
        command_to(own_site, "add_consumer", queue="slow")
    assert _probe(probed).problems == []


def test_a_worker_that_answers_a_ping_and_consumes_nothing_is_ill(own_site: Site, probed: Worker) -> None:
    for queue in ("celery", "slow"):
        command_to(own_site, "cancel_consumer", queue=queue)
    try:
        assert ping(own_site, "probed@tests", answers=1)
        assert "It consumes no queue" in _probe(probed).problems[0]
    finally:
        for queue in ("celery", "slow"):
            command_to(own_site, "add_consumer", queue=queue)


def test_a_worker_whose_places_are_all_taken_is_well_unless_that_lasts_too_long(
    own_site: Site, probed: Worker, key: str
) -> None:
    charge.delay(key, gated=True)
    own_site.journal.started(key)
    busy = _probe(probed)
    assert (busy.problems, busy.facts["active"]) == ([], 1)
    assert "works, and has no place free for messages of " in busy.summary
    # A worker says it in tenths of a second.
    told = eventually(lambda: _probe(probed, max_busy=0.0).problems, "the body has run for too long")
    assert "a body has run for" in told[0]
    own_site.journal.open_all()


def test_a_canary_that_another_worker_gets_is_sent_on(
    own_site: Site, probed: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "AGAIN", 1000.0)  # the first one must arrive
    other = _worker(own_site, "other")
    try:
        other.start()
        for _ in range(4):
            assert _probe(probed, within=20).problems == []
            assert _probe(other, within=20).problems == []
    finally:
        other.kill()


def test_a_frozen_worker_is_ill_within_the_time_and_its_neighbour_is_well(
    own_site: Site, probed: Worker
) -> None:
    frozen = _worker(own_site, "frozen").start()
    try:
        pause(frozen.process.pid)
        began = time.monotonic()
        assert "does not answer" in _probe(frozen, within=4).problems[0]
        assert time.monotonic() - began < 8
        assert _probe(probed, within=20).problems == [], "though the frozen one may have taken a canary"
    finally:
        frozen.resume()
        frozen.kill()
        own_site.broker.clear()


def test_a_warm_shutdown_that_hangs_is_ill(own_site: Site, key: str) -> None:
    hanging = _worker(own_site, "hanging").start()
    try:
        charge.apply_async((key,), {"gated": True})
        own_site.journal.started(key)
        hanging.terminate()
        hanging.wait_for_log("Warm shutdown")
        health = _probe(hanging, within=4)
        assert hanging.is_alive
        assert "shut" in health.problems[0]
    finally:
        hanging.kill()


def test_a_stuck_pool_is_ill(own_site: Site) -> None:
    stuck = _worker(own_site, "stuck").start()
    try:
        for pid in stuck.children():
            os.kill(pid, signal.SIGSTOP)
        health = _probe(stuck, within=6)
        assert any("its pool is stuck" in problem for problem in health.problems)
    finally:
        stuck.resume()
        stuck.kill()


def test_a_worker_that_is_not_there_is_ill(own_site: Site) -> None:
    assert (
        "nobody@tests does not answer"
        in worker_health(app, "nobody@tests", queues=None, within=2, max_busy=None).problems[0]
    )
    assert _is_clean(own_site)


def test_a_worker_that_says_that_it_consumes_and_takes_nothing_is_ill(own_site: Site) -> None:
    deaf = _worker(own_site, "deaf", "tests.support.workers.catatonic").start()
    try:
        assert _probe(deaf).problems == []
        assert command_to(own_site, "go_deaf")
        _probe(deaf, within=3)  # whatever it was waiting for at that moment it still gets
        health = _probe(deaf, within=6)
        assert ping(own_site, "deaf@tests", answers=1)
        assert health.facts["queues"] == ["celery", "slow"]
        assert len(health.problems) == 2
        assert all("takes no message from it" in problem for problem in health.problems)
        eventually(lambda: _is_clean(own_site), "its canaries were taken back")
    finally:
        deaf.kill()
