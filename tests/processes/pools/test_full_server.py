"""Bodies that share a process take all the connections that the server has: their heart has kept one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connections

from django_idempotent_tasks.states import State
from example_project.servers import Server, start_postgres
from tests.sample import tasks
from tests.support.waiting import eventually
from tests.support.workers.site import Site
from tests.support.workers.sites import on_database

pytestmark = pytest.mark.process

SLOTS, BODIES = 20, 40


@pytest.fixture
def narrow_site(site: Site) -> Iterator[Site]:
    """A server with few connections, one of which is the test's."""
    with start_postgres(durable=False) as server:
        narrow(server)
        with on_database(site, server.url, "narrow") as narrowed:
            yield narrowed
            narrowed.settle()


def narrow(server: Server) -> None:
    server._command[server._command.index("max_connections=200")] = f"max_connections={SLOTS}"
    server.restart()


def is_full() -> bool:
    """Whether the server has no connection left."""
    with connections["narrow"].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
        return bool(cursor.fetchone()[0] >= SLOTS)


def begun(site: Site, keys: list[str]) -> list[str]:
    """Those whose body has begun: a connection is open before that."""
    return [each for each in keys if site.journal.starts(each)]


@pytest.mark.parametrize("pool", ["gevent", "threads"])
def test_leases_are_kept_while_the_bodies_have_all_connections(
    narrow_site: Site, key: str, pool: str
) -> None:
    if pool == "gevent":
        pytest.importorskip("gevent")
    site = narrow_site
    assert site.rows.count() == 0, "the test has its connection"
    keys = [f"{key}-{number}" for number in range(BODIES)]
    with site.running(pool, "--pool", pool, "--concurrency", str(BODIES)):
        for each in keys:
            site.send(tasks.charging, each, gated=True)
        eventually(is_full, "the server is full")
        running = eventually(
            lambda: found if len(found := begun(site, keys)) >= SLOTS // 2 else None, "bodies have begun"
        )
        for each in running:
            eventually(lambda each=each: site.rows.kept_for(each) > 4 * tasks.LEASE, "three leases passed")  # type: ignore[misc]
        site.journal.open(*(f"{each}.1" for each in keys))
        rows = [site.rows.wait_for(each, State.SUCCEEDED, within=60) for each in keys]
    assert {(row.attempts, row.token, row.crashes) for row in rows} == {(1, 1, 0)}
    assert [site.journal.starts(each) for each in keys] == [1] * BODIES
