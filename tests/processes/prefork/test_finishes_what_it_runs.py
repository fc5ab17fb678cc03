"""A worker that is told to stop finishes what it runs, keeps its key meanwhile, and fails nothing."""

from __future__ import annotations

import signal

import pytest

from django_idempotent_tasks.models import FailedJob, IdempotencyKey
from django_idempotent_tasks.states import State
from tests.sample import tasks
from tests.support.waiting import eventually
from tests.support.workers.site import Pair, Site

pytestmark = pytest.mark.process


def test_the_heartbeat_goes_on_during_a_warm_shutdown(site: Site, pair: Pair, key: str) -> None:
    site.send(tasks.skipping, key, gated=True)
    start = site.journal.started(key)
    stopping = site.owner(start)
    other = pair.other(stopping)
    stopping.terminate()
    stopping.wait_for_log("Warm shutdown")

    told = site.rows.lease_end(key)
    eventually(
        lambda: (site.rows.lease_end(key) - told).total_seconds() > 2 * tasks.LEASE,
        "two more leases passed",
        every=0.1,
    )
    site.journal.open(f"{key}.1")
    assert stopping.wait() == 0
    row = site.rows.wait_for(key, State.SUCCEEDED)
    assert (row.attempts, row.token) == (1, 1)
    assert site.journal.starts(key) == 1
    assert other.is_alive
    site.broker.wait_until_empty()


def test_calls_that_a_stopping_worker_had_fetched_are_untouched(own_site: Site, key: str) -> None:
    fetched = [f"{key}-{number}" for number in range(9)]
    with own_site.running("hoarder", "--concurrency", "1", "--prefetch-multiplier", "10") as worker:
        own_site.send(tasks.skipping, key, gated=True)
        own_site.journal.started(key)
        for each in fetched:
            own_site.send(tasks.skipping, each)
        eventually(lambda: own_site.broker.unacknowledged() == 10, "all are fetched")
        worker.terminate()
        worker.wait_for_log("Warm shutdown")
        own_site.journal.open(f"{key}.1")
        assert worker.wait() == 0

    rows = IdempotencyKey.objects.using(own_site.rows.alias)
    assert list(rows.values_list("key_text", flat=True)) == [f"key={key}"]
    with own_site.running("successor"):
        for each in fetched:
            row = own_site.rows.wait_for(each, State.SUCCEEDED)
            assert (row.attempts, row.crashes) == (1, 0)
    assert not FailedJob.objects.using(own_site.rows.alias).exists()


def test_a_body_interrupted_by_a_cold_shutdown_runs_again_at_once(site: Site, pair: Pair, key: str) -> None:
    site.send(tasks.patient, key, gated=True)
    first = site.journal.started(key)
    stopping = site.owner(first)
    site.journal.open(f"{key}.2")
    stopping.process.send_signal(signal.SIGQUIT)

    second = site.journal.started(key, attempt=2)
    assert site.owner(second) is pair.other(stopping)
    assert second["previous_attempt_died"] is False
    row = site.rows.wait_for(key, State.SUCCEEDED)
    assert (row.attempts, row.crashes) == (2, 0)
    assert len(site.rows.effects(key)) == 1
    stopping.wait()


def test_a_worker_that_takes_long_to_stop_gives_the_lead_of_its_sweeper_to_another(
    own_site: Site, key: str
) -> None:
    site = own_site
    with site.running("leaving") as leaving:
        eventually(lambda: site.rows.is_led_by(leaving), "it leads")
        site.send(tasks.skipping, key, gated=True)
        site.journal.started(key)
        with site.running("staying") as staying:
            leaving.terminate()
            leaving.wait_for_log("Warm shutdown")

            eventually(lambda: site.rows.is_led_by(staying), "the lead is given on")
            assert leaving.is_alive
            site.journal.open(f"{key}.1")
            assert leaving.wait() == 0
            assert site.rows.is_led_by(staying)
