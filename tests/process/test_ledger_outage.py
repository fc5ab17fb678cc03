"""The ledger's database dies: nothing runs without it, nothing is lost, and what ran completes later."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_idempotent_tasks.states import State
from example_project.servers import Server, start_postgres
from tests.proj import tasks
from tests.support.broker import Broker
from tests.support.databases import migrated_database
from tests.support.rows import Rows
from tests.support.site import Site

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A PostgreSQL server that may be killed."""
    with start_postgres(durable=False) as server:
        yield server


@pytest.fixture(scope="module")
def frail_site(site: Site, server: Server) -> Iterator[Site]:
    """A worker with that database."""
    broker = Broker(site.broker.url, f"{site.broker.prefix}ledger-outage:")
    with migrated_database(server.url, "frail"):
        frail = Site(site.directory, server.url, broker, site.journal, Rows("frail"))
        with frail.running("frail", "--concurrency", "2"):
            yield frail
        frail.close()


@pytest.fixture(autouse=True)
def _clean_frail(frail_site: Site) -> Iterator[None]:
    """Begin and end with a living database."""
    yield
    frail_site.settle()


def test_nothing_runs_without_the_ledger_and_the_message_is_not_lost(
    frail_site: Site, server: Server, key: str
) -> None:
    site = frail_site
    server.kill()
    site.rows.close()
    site.send(tasks.charging, key)
    site.workers[0].wait_for_log("Its message goes back to the queue")
    assert site.journal.starts(key) == 0

    server.restart()
    row = site.rows.wait_for(key, State.SUCCEEDED)
    assert (row.attempts, row.token, row.crashes) == (1, 1, 0)
    assert len(site.journal.read("charged", key)) == 1
    site.broker.wait_until_empty()


def test_a_task_that_prefers_an_error_is_requeued_as_well(frail_site: Site, server: Server, key: str) -> None:
    site = frail_site
    server.kill()
    site.rows.close()
    site.send(tasks.impatient, key)
    site.workers[0].wait_for_log("proj.impatient: the ledger's database did not answer")

    server.restart()
    assert site.rows.wait_for(key, State.SUCCEEDED).attempts == 1
    assert site.journal.starts(key) == 1
    assert len(site.rows.effects(key)) == 1
    site.broker.wait_until_empty()


def test_a_completion_waits_for_a_ledger_that_is_away_for_a_moment(
    frail_site: Site, server: Server, key: str
) -> None:
    site = frail_site
    site.send(tasks.charging_patiently, key, gated=True)
    site.journal.started(key)
    server.kill()
    site.rows.close()
    site.journal.open(f"{key}.1")
    site.journal.wait_for("charged", key)

    server.restart()
    row = site.rows.wait_for(key, State.SUCCEEDED)
    site.broker.wait_until_empty()
    assert (row.attempts, row.token, row.crashes) == (1, 1, 0)
    assert len(site.journal.read("charged", key)) == 1


def test_a_ledger_that_is_away_for_longer_than_the_lease_leads_to_a_second_attempt(
    frail_site: Site, server: Server, key: str
) -> None:
    site = frail_site
    site.send(tasks.charging, key, gated=True)
    site.journal.started(key)
    server.kill()
    site.rows.close()
    site.journal.open(f"{key}.1", f"{key}.2")
    site.workers[0].wait_for_log("did not answer for a whole lease")

    server.restart()
    row = site.rows.wait_for(key, State.SUCCEEDED)
    site.broker.wait_until_empty()
    assert (row.attempts, row.crashes) == (2, 1)
    charges = site.journal.read("charged", key)
    assert [charge["attempt"] for charge in charges] == [1, 2]
    assert charges[0]["downstream"] == charges[1]["downstream"]
