"""The ledger's database dies: nothing runs without it, nothing is lost, and what ran completes later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from django_idempotent_tasks.ledger.outage import LEDGER
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.states import State
from example_project.servers import Server, start_postgres
from tests.sample import tasks
from tests.support.waiting import eventually
from tests.support.workers.site import GAP, Site
from tests.support.workers.sites import on_database

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A PostgreSQL server that may be killed."""
    with start_postgres(durable=False) as server:
        yield server


@pytest.fixture(scope="module")
def frail_site(site: Site, server: Server) -> Iterator[Site]:
    """A worker with that database."""
    with (
        on_database(site, server.url, "frail") as frail,
        frail.running("frail", "--concurrency", "2"),
    ):
        # Where no sweeper has ever noted that the ledger answers, nobody knows of an outage.
        eventually(lambda: get_store("frail").led_for(LEDGER) is not None, "its sweeper has noted that")
        yield frail


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


def test_a_body_that_was_told_of_a_lost_lease_runs_again_and_counts_no_crash(
    frail_site: Site, server: Server, key: str
) -> None:
    site = frail_site
    site.send(tasks.watching, key)
    site.journal.started(key)
    server.kill()
    seen = first_seen()
    site.rows.close()
    site.journal.wait_for("lost", key)

    wait_until(seen)
    server.restart()
    eventually(lambda: was_renewed(site, key), "its owner came back")
    site.journal.open(f"{key}.1", f"{key}.2")
    row = site.rows.wait_for(key, State.SUCCEEDED)
    site.broker.wait_until_empty()
    assert site.journal.wait_for("refused", key)["attempt"] == 1
    assert (row.attempts, row.crashes) == (2, 0)
    assert [effect.attempt for effect in site.rows.effects(key)] == [2]


def test_a_body_that_was_told_of_a_lost_lease_and_raises_runs_again_and_is_no_dead_letter(
    frail_site: Site, server: Server, key: str
) -> None:
    site, hows = frail_site, ["error", "ignore"]
    keys = [f"{key}-{how}" for how in hows]
    for each, how in zip(keys, hows, strict=True):
        site.send(tasks.heeding, each, how)
        site.journal.started(each)
    server.kill()
    seen = first_seen()
    site.rows.close()
    for each in keys:
        site.journal.wait_for("lost", each)

    wait_until(seen)
    server.restart()
    for each in keys:
        eventually(lambda each=each: was_renewed(site, each), "its owner came back")  # type: ignore[misc]
    site.journal.open(*(f"{each}.{attempt}" for each in keys for attempt in (1, 2)))
    for each in keys:
        eventually(lambda each=each: site.rows.row(each).state >= State.REVIEW, "it has an end")  # type: ignore[misc]
    rows = [site.rows.row(each) for each in keys]
    assert [(row.state, row.attempts, row.crashes) for row in rows] == [(State.SUCCEEDED, 2, 0)] * 2
    assert [len(site.rows.effects(each)) for each in keys] == [1, 1]


def first_seen() -> datetime:
    """Return when sweepers can tell an outage that begins now from a pause between two of their notes."""
    return timezone.now() + timedelta(seconds=GAP + 1)


def wait_until(moment: datetime) -> None:
    """Let an outage last until this moment."""
    eventually(lambda: timezone.now() > moment, "the outage has lasted for so long")


def stay_away_past_the_leases(site: Site, server: Server, keys: Sequence[str]) -> None:
    """Kill the server; start it again when all of these leases are over, and sweepers can see the outage."""
    over = max(site.rows.lease_end(key) for key in keys) + timedelta(seconds=1)
    server.kill()
    seen = first_seen()
    site.rows.close()
    wait_until(max(over, seen))
    server.restart()


def was_renewed(site: Site, key: str) -> bool:
    """Whether somebody has a lease on it that is not over."""
    assert site.rows.row(key).crashes == 0, "its living owner was taken for dead"
    return site.rows.lease_end(key) > timezone.now()


@pytest.mark.parametrize(
    ("arguments", "keys", "environment"),
    [
        pytest.param(["--concurrency", "2"], 2, {}, id="prefork"),
        pytest.param(
            ["--pool", "threads", "--concurrency", "30"],
            20,
            {"PROJ_VISIBILITY_TIMEOUT": "1"},
            id="many-keys-with-copies-that-wait",
        ),
    ],
)
def test_bodies_that_outlive_two_long_outages_run_once_and_count_no_crash(
    frail_site: Site, server: Server, key: str, arguments: list[str], keys: int, environment: dict[str, str]
) -> None:
    frail_site.workers[0].kill()
    site = frail_site
    each_key = [f"{key}-{number}" for number in range(keys)]
    with site.running("sturdy", *arguments, **environment):
        for each in each_key:
            site.send(tasks.charging_patiently, each, gated=True)
        for each in each_key:
            site.journal.started(each)
        for _ in range(2):
            stay_away_past_the_leases(site, server, each_key)
            for each in each_key:
                eventually(lambda each=each: was_renewed(site, each), "its owner came back")  # type: ignore[misc]
        site.journal.open(*(f"{each}.1" for each in each_key))
        rows = [site.rows.wait_for(each, State.SUCCEEDED) for each in each_key]
    assert {(row.attempts, row.token, row.crashes) for row in rows} == {(1, 1, 0)}
    assert [site.journal.starts(each) for each in each_key] == [1] * keys
