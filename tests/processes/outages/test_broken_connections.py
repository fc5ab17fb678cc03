"""Database connections: kept ones may break, and none is shared with a forked child."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_idempotent_tasks.states import State
from example_project.servers import Server, start_postgres
from tests.sample import tasks
from tests.support.ledger.backends import terminate
from tests.support.workers.site import Site
from tests.support.workers.sites import KEPT, keeping_worker, on_database

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def keeping(own_site: Site) -> Iterator[Site]:
    """One worker child that keeps its connection from task to task, without testing it first."""
    with keeping_worker(own_site, "keeping"):
        yield own_site


@pytest.fixture
def server() -> Iterator[Server]:
    """A PostgreSQL server that may be killed."""
    with start_postgres(durable=False) as server:
        yield server


@pytest.fixture
def frail(site: Site, server: Server) -> Iterator[Site]:
    """The same with a database that may go away."""
    with on_database(site, server.url, "frail") as frail, keeping_worker(frail, "frail-keeping"):
        yield frail


def backend_of(site: Site, key: str) -> int:
    """The server process that answered the task of a key."""
    site.rows.wait_for(key, State.SUCCEEDED)
    return int(site.rows.stored(key))


def test_a_kept_connection_serves_the_next_task_and_a_broken_one_is_replaced(keeping: Site, key: str) -> None:
    for round_ in range(3):
        names = [f"{key}-{round_}-{number}" for number in range(2)]
        for name in names:
            keeping.send(tasks.connected, name)
        first, second = (backend_of(keeping, name) for name in names)
        assert first == second
        assert terminate(f"pid = {first}", alias=keeping.rows.alias) == 1

    keeping.broker.wait_until_empty()
    starts = [entry for entry in keeping.journal.read("started") if entry["key"].startswith(key)]
    assert [entry["attempt"] for entry in starts] == [1] * 6


def test_a_connection_that_breaks_under_the_body_does_not_cost_the_completion(
    keeping: Site, key: str
) -> None:
    keeping.send(tasks.connected, f"{key}-before")
    backend = backend_of(keeping, f"{key}-before")
    keeping.send(tasks.charging, key, gated=True)
    keeping.journal.started(key)
    assert terminate(f"pid = {backend}", alias=keeping.rows.alias) == 1
    keeping.journal.open(f"{key}.1")

    row = keeping.rows.wait_for(key, State.SUCCEEDED)
    assert (row.attempts, row.crashes) == (1, 0)
    assert len(keeping.journal.read("charged", key)) == 1


def test_kept_connections_survive_a_restart_of_the_database(frail: Site, server: Server, key: str) -> None:
    for round_ in range(2):
        names = [f"{key}-{round_}-{number}" for number in range(2)]
        for name in names:
            frail.send(tasks.connected, name)
        assert len({backend_of(frail, name) for name in names}) == 1
        server.kill()
        server.restart()
        frail.rows.close()

    frail.send(tasks.skipping, key)
    row = frail.rows.wait_for(key, State.SUCCEEDED)
    assert (row.attempts, row.crashes, len(frail.rows.effects(key))) == (1, 0, 1)
    frail.broker.wait_until_empty()


def test_without_an_age_each_task_has_a_connection_of_its_own(own_site: Site, key: str) -> None:
    names = [f"{key}-{number}" for number in range(4)]
    options = ("--queues", "ageless", "--concurrency", "1")
    with own_site.running("ageless", *options, **{**KEPT, "PROJ_CONN_MAX_AGE": "0"}):
        for name in names:
            own_site.send(tasks.connected, name, options={"queue": "ageless"})
        assert len({backend_of(own_site, name) for name in names}) == 4


def test_children_share_no_connection_and_no_lock_with_their_parent(own_site: Site, key: str) -> None:
    names = [f"{key}-{number}" for number in range(20)]
    options = ("--queues", "forking", "--concurrency", "4", "--max-tasks-per-child", "1")
    with own_site.running("forking", *options, PROJ_PARENT="query locks", **KEPT):
        for name in names:
            own_site.send(tasks.renewed, name, options={"queue": "forking"})
        rows = [own_site.rows.wait_for(name, State.SUCCEEDED, within=60) for name in names]

    assert {(row.attempts, row.token) for row in rows} == {(1, 1)}
    backends = {own_site.rows.stored(name) for name in names}
    parent = own_site.journal.read("parent")[-1]["backend"]
    assert len(backends | {parent}) == 21
    assert len({entry["pid"] for name in names for entry in own_site.journal.read("started", name)}) == 20
