"""A worker is told to stop: what it finishes is kept, what it cannot finish is free at once for another."""

from __future__ import annotations

import os
import signal
import time
from contextlib import AbstractContextManager

import pytest

from tests.deaths.leased.verdicts import done_once, next_attempt
from tests.deaths.stopping import stopping
from tests.deaths.verdicts import NEXT_CLAIM_WITHIN
from tests.sample import death
from tests.support.brokers.control import LISTENING, shut_down
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

pytestmark = pytest.mark.process

SOFTLY = {"worker_soft_shutdown_timeout": 2}


def started(site: Site, key: str) -> None:
    """Wait until the body has begun."""
    site.journal.started(key)


def stopping_worker(site: Site, key: str, heir: Worker, **celery: object) -> AbstractContextManager[Worker]:
    """A worker that is to be told to stop while the body of this key waits."""
    return stopping(site, key, heir, (death.acting, "wait"), started, **celery)


def assert_goes_on_elsewhere(site: Site, key: str, heir: Worker, *, told: float, died: bool = False) -> None:
    """The next attempt begins at once on the heir, and nobody has crashed."""
    second = next_attempt(site, key, died=died)
    assert second["pid"] in heir.children()
    assert second["at"] - told < NEXT_CLAIM_WITHIN
    done_once(site, key, attempts=2, crashes=0)


def test_a_warm_shutdown_lets_the_body_finish(site: Site, family: Worker, key: str) -> None:
    with stopping_worker(site, key, family) as worker:
        worker.terminate()
        worker.wait_for_log("Warm shutdown")
        site.journal.open(f"{key}.1")

        done_once(site, key, attempts=1, crashes=0)
        assert worker.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("told_by", ["signal", "remote control"])
def test_a_child_that_is_ended_while_its_worker_stops_has_not_crashed(
    site: Site, family: Worker, key: str, told_by: str, number: signal.Signals
) -> None:
    with stopping_worker(site, key, family, **LISTENING) as worker:
        if told_by == "signal":
            worker.terminate()
        else:
            shut_down(site, worker)
        worker.wait_for_log("Warm shutdown" if told_by == "signal" else "Got shutdown from remote")
        told = time.time()
        os.kill(site.journal.started(key)["pid"], number)

        assert_goes_on_elsewhere(site, key, family, told=told, died=number == signal.SIGKILL)
        worker.wait()


def test_a_cold_shutdown_frees_the_key_at_once(site: Site, family: Worker, key: str) -> None:
    with stopping_worker(site, key, family) as worker:
        worker.process.send_signal(signal.SIGQUIT)

        told = site.journal.wait_for("told to stop", key)["at"]
        assert_goes_on_elsewhere(site, key, family, told=told)
        worker.wait()


def test_a_body_that_ends_within_a_soft_shutdown_is_kept(site: Site, family: Worker, key: str) -> None:
    with stopping_worker(site, key, family, **SOFTLY) as worker:
        worker.process.send_signal(signal.SIGQUIT)
        worker.wait_for_log("Initiating Soft Shutdown")
        site.journal.open(f"{key}.1")

        done_once(site, key, attempts=1, crashes=0)
        worker.wait()
        assert site.journal.read("told to stop", key) == []


def test_a_body_that_does_not_end_within_a_soft_shutdown_goes_on_elsewhere(
    site: Site, family: Worker, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As the units and manifests of deploy/ have it: whoever stops a service sends SIGTERM.
    monkeypatch.setenv("REMAP_SIGTERM", "SIGQUIT")
    with stopping_worker(site, key, family, **SOFTLY) as worker:
        worker.process.send_signal(signal.SIGTERM)

        told = site.journal.wait_for("told to stop", key)["at"]
        assert_goes_on_elsewhere(site, key, family, told=told)
        worker.wait()


def test_a_body_that_is_stopped_together_with_its_parent_goes_on_elsewhere(
    site: Site, family: Worker, key: str
) -> None:
    with stopping_worker(site, key, family) as worker:
        os.killpg(worker.process.pid, signal.SIGTERM)

        told = site.journal.wait_for("told to stop", key)["at"]
        assert_goes_on_elsewhere(site, key, family, told=told)
        assert worker.wait() == 0
