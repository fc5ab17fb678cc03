"""A server that is killed loses claims which did not wait for its disk; what was committed happened once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connections

from django_idempotent_tasks.states import State
from example_project.servers import Server, start_postgres
from tests.sample import failures, tasks
from tests.support.waiting import eventually
from tests.support.workers import processes
from tests.support.workers.site import Site
from tests.support.workers.sites import on_database

pytestmark = pytest.mark.process

FAST = {"PROJ_IDEMPOTENT_TASKS": '{"CLAIM_DURABILITY": "fast"}', "PROJ_SWEEP_SECONDS": "5"}
#: Calls under load, and after how many more effects the server is killed.
CALLS, STRETCH = 120, 25


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that flushes what nobody waits for as late as it can."""
    with start_postgres(durable=False) as server:
        yield server


@pytest.fixture(scope="module")
def fast_site(site: Site, server: Server) -> Iterator[Site]:
    """A worker whose claims do not wait for that server's disk."""
    with on_database(site, server.url, "fast") as fast:
        with connections["fast"].cursor() as cursor:
            cursor.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        fast.rows.close()
        server.restart()
        with fast.running("fast", "--concurrency", "2", **FAST):
            yield fast


def crash(site: Site, server: Server) -> None:
    """Kill every process of the server, and start it again."""
    server.kill()
    site.rows.close()
    server.restart()


def started(site: Site, keys: list[str]) -> int:
    """How many of the keys a body has begun for."""
    return len({entry["key"] for entry in site.journal.read("started")}.intersection(keys))


def crash_until_lost(site: Site, server: Server, key: str) -> str:
    """Crash beside running bodies until a claim is lost; its key. Another commit may flush the log before."""
    for number in range(5):
        each = f"{key}-{number}"
        site.send(tasks.skipping, each, gated=True)
        site.journal.started(each)
        crash(site, server)
        if site.rows.find(each) is None:
            return each
        site.journal.open(f"{each}.1")
    pytest.fail("no claim was lost: do claims still wait for the disk?")


def test_a_lost_claim_completes_nothing_and_its_work_is_done_once(
    fast_site: Site, server: Server, key: str
) -> None:
    site = fast_site
    lost = crash_until_lost(site, server, key)
    site.send(tasks.skipping, lost, gated=True)
    eventually(lambda: site.journal.starts(lost) == 2, "another call runs beside the one that lost its claim")
    starts = site.journal.read("started", lost)
    assert starts[0]["downstream"] == starts[1]["downstream"]

    site.journal.open(f"{lost}.1", f"{lost}.2")
    site.rows.wait_for(lost, State.SUCCEEDED)
    site.broker.wait_until_empty()
    assert len(site.rows.effects(lost)) == 1


def test_a_call_that_lost_its_claim_is_run_again(fast_site: Site, server: Server, key: str) -> None:
    site = fast_site
    lost = crash_until_lost(site, server, key)
    site.journal.open(f"{lost}.1", f"{lost}.2")
    row = site.rows.wait_for(lost, State.SUCCEEDED)
    site.broker.wait_until_empty()
    assert site.journal.starts(lost) == 2
    assert [effect.token for effect in site.rows.effects(lost)] == [row.token]


def test_what_has_entered_external_is_not_forgotten(fast_site: Site, server: Server, key: str) -> None:
    site = fast_site
    site.send(failures.careful, key, ["charge and wait"])
    pid = site.journal.wait_for("charged", key)["pid"]
    crash(site, server)
    assert site.rows.row(key).in_external
    processes.kill(pid)
    site.rows.wait_for(key, State.REVIEW, within=60)
    site.broker.wait_until_empty()
    assert len(site.journal.read("charged", key)) == 1


def test_under_load_nothing_is_lost_or_done_twice(fast_site: Site, server: Server, key: str) -> None:
    site = fast_site
    keys = [f"{key}-{number}" for number in range(CALLS)]
    for each in keys:
        site.send(tasks.skipping, each)
        site.send(tasks.returning, f"{each}-by-return")
    for stretch in range(1, 5):
        done = stretch * STRETCH
        eventually(lambda done=done: started(site, keys) >= done, "some more have begun")  # type: ignore[misc]
        crash(site, server)
    for each in keys:
        site.rows.wait_for(each, State.SUCCEEDED, within=60)
        site.rows.wait_for(f"{each}-by-return", State.SUCCEEDED, within=60)
    site.broker.wait_until_empty()
    assert {len(site.rows.effects(each)) for each in keys} == {1}
