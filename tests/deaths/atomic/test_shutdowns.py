"""A worker is told to stop in an atomic body: that is rolled back, and runs once more elsewhere."""

from __future__ import annotations

import os
import signal
from contextlib import AbstractContextManager

import pytest

from tests.deaths.atomic.verdicts import done_once, visitor
from tests.deaths.stopping import stopping
from tests.deaths.verdicts import NEXT_CLAIM_WITHIN
from tests.sample import atomic
from tests.support.brokers.control import consume
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

pytestmark = pytest.mark.process


def stopping_worker(site: Site, key: str, heir: Worker, **celery: object) -> AbstractContextManager[Worker]:
    """A worker that is to be told to stop while the body of this key waits."""
    return stopping(site, key, heir, (atomic.acting, "written: wait"), visitor, **celery)


def assert_goes_on_elsewhere(site: Site, key: str, heir: Worker) -> None:
    """The next start is soon and on the heir; nobody has crashed."""
    told = site.journal.wait_for("told to stop", key)["at"]
    second = site.journal.wait_for("started", key, count=2)
    assert second["pid"] in heir.children()
    assert second["at"] - told < NEXT_CLAIM_WITHIN
    done_once(site, key, starts=2, crashes=0)


@pytest.mark.slow
def test_a_warm_shutdown_lets_the_body_finish(site: Site, family: Worker, key: str) -> None:
    with stopping_worker(site, key, family) as worker:
        worker.terminate()
        worker.wait_for_log("Warm shutdown")
        site.journal.open(f"{key}.1")

        done_once(site, key, starts=1, crashes=0)
        assert worker.wait() == 0


@pytest.mark.slow
def test_a_cold_shutdown_rolls_the_body_back_and_it_runs_again(site: Site, family: Worker, key: str) -> None:
    with stopping_worker(site, key, family) as worker:
        worker.process.send_signal(signal.SIGQUIT)

        assert_goes_on_elsewhere(site, key, family)
        worker.wait()


@pytest.mark.slow
def test_a_body_that_does_not_end_within_a_soft_shutdown_runs_again(
    site: Site, family: Worker, key: str
) -> None:
    with stopping_worker(site, key, family, worker_soft_shutdown_timeout=2) as worker:
        worker.process.send_signal(signal.SIGQUIT)

        assert_goes_on_elsewhere(site, key, family)
        worker.wait()


@pytest.mark.parametrize("way", ["cold", "its child told as well", "its child killed"])
def test_a_start_that_was_counted_before_it_began_is_not_a_crash_where_its_worker_stops(
    site: Site, family: Worker, key: str, way: str
) -> None:
    """What is delivered again counts each start as a crash first, and takes that back at its end."""
    arguments = ("--queues", key, "--concurrency", "1")
    with site.running("stopping", *arguments) as worker:
        raw = site.park(atomic.acting, key, ["written: wait"])
        site.broker.deliver(raw, redelivered=True, queue=key)
        child = visitor(site, key)
        assert site.rows.row(key).crashes == 1
        consume(site, key, by=family)
        if way == "cold":
            worker.process.send_signal(signal.SIGQUIT)
        else:
            worker.terminate()
            worker.wait_for_log("Warm shutdown")
            os.kill(child, signal.SIGTERM if way == "its child told as well" else signal.SIGKILL)

        done_once(site, key, starts=2, crashes=0)
        worker.wait()


def test_a_body_that_is_stopped_together_with_its_parent_runs_again(
    site: Site, family: Worker, key: str
) -> None:
    with stopping_worker(site, key, family) as worker:
        os.killpg(worker.process.pid, signal.SIGTERM)

        assert_goes_on_elsewhere(site, key, family)
        assert worker.wait() == 0
