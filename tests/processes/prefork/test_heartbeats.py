"""A living owner keeps its key, however long the body takes and whatever the broker delivers meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.sweep import sweep_once
from tests.processes.prefork.verdicts import assert_ran_once
from tests.sample import tasks
from tests.sample.celery import app
from tests.support.waiting import eventually
from tests.support.workers.site import Site

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def hasty_broker_site(own_site: Site) -> Iterator[Site]:
    """Two workers whose broker delivers again what is not acknowledged within a second."""
    pair = own_site.pair(PROJ_VISIBILITY_TIMEOUT="1")
    pair.ready()
    yield own_site
    pair.kill()


def has_outlived_three_leases(site: Site, key: str) -> bool:
    """Whether the last renewal came more than three leases after the start."""
    return site.rows.kept_for(key) > 4 * tasks.LEASE


def let_it_outlive_three_leases(site: Site, key: str) -> None:
    site.journal.started(key)
    eventually(lambda: has_outlived_three_leases(site, key), "three leases passed", every=0.1)
    site.journal.open(f"{key}.1")


@pytest.mark.usefixtures("pair")
def test_a_body_longer_than_three_leases_runs_once_under_the_busiest_sweeper(site: Site, key: str) -> None:
    site.send(tasks.skipping, key, gated=True)
    site.journal.started(key)

    def sweep_and_look() -> bool:
        sweep_once(app, get_store())
        return has_outlived_three_leases(site, key)

    eventually(sweep_and_look, "three leases passed", every=0.1)
    site.journal.open(f"{key}.1")
    assert_ran_once(site, key)


def test_copies_that_arrive_while_the_body_runs_neither_run_nor_fail(
    hasty_broker_site: Site, key: str
) -> None:
    site = hasty_broker_site
    site.send(tasks.skipping, key, gated=True)
    let_it_outlive_three_leases(site, key)

    assert_ran_once(site, key)
    site.broker.wait_until_empty()
    assert_ran_once(site, key)


def test_copies_of_a_call_with_a_countdown_run_once(hasty_broker_site: Site, key: str) -> None:
    site = hasty_broker_site
    site.send(tasks.skipping, key, options={"countdown": 3})

    assert_ran_once(site, key)
    site.broker.wait_until_empty()
    assert_ran_once(site, key)


@pytest.mark.usefixtures("pair")
def test_a_heartbeat_leaves_the_connection_of_an_open_transaction_alone(site: Site, key: str) -> None:
    site.send(tasks.renewed, key, in_transaction=True)

    site.rows.wait_for(key, State.SUCCEEDED)
    assert site.rows.stored(key) > 0, "the body's connection was replaced"
    assert_ran_once(site, key)


def test_bodies_in_threads_keep_their_leases(own_site: Site, key: str) -> None:
    keys = [f"{key}-{number}" for number in range(3)]
    with own_site.running("threads", "--pool", "threads", "--concurrency", "3"):
        for each in keys:
            own_site.send(tasks.renewed, each)
        rows = [own_site.rows.wait_for(each, State.SUCCEEDED) for each in keys]

    assert [(row.attempts, row.token) for row in rows] == [(1, 1)] * 3
    assert len({row.result for row in rows}) == 3, "threads shared a connection"
