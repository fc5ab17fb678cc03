"""Workers whose only way to the database is a PgBouncer in transaction mode; the tests look on directly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from django.db import connection, connections

from example_project.database_url import database_from_url
from example_project.servers import Server
from example_project.servers.pgbouncer import behind, find_pgbouncer, start_pgbouncer
from tests.processes.prefork.conftest import _pair
from tests.support.brokers.broker import Broker
from tests.support.ledger.databases import empty_database, test_database
from tests.support.ledger.rows import Rows
from tests.support.workers.site import Site
from tests.support.workers.sites import _clean, key, name_of, open_site, pair, site_apart

if TYPE_CHECKING:
    from pytest_django.plugin import DjangoDbBlocker

__all__ = ["_clean", "_pair", "key", "pair"]


@contextmanager
def _pooled() -> Iterator[str]:
    with test_database() as url, start_pgbouncer(url) as pooler:
        yield pooler.url


@pytest.fixture(scope="package")
def site(
    django_db_blocker: DjangoDbBlocker,
    template: None,  # noqa: ARG001
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Site]:
    """A test database behind a pooler, a broker and a directory that are open to worker processes."""
    if find_pgbouncer() is None:
        pytest.skip("needs PgBouncer: apt-get install pgbouncer")
    with django_db_blocker.unblock(), open_site(tmp_path_factory, _pooled()) as site:
        yield site


@pytest.fixture(scope="module")
def own_site(site: Site, request: pytest.FixtureRequest) -> Iterator[Site]:
    """A database and a queue that the shared workers do not see; the journal and the pooler are the same."""
    port = urlsplit(site.database_url).port or 0
    with site_apart(site, name_of(request), lambda url: behind(url, port)) as own:
        yield own


@pytest.fixture
def pooler(site: Site) -> Iterator[Server]:  # noqa: ARG001  finds PgBouncer, and has the test's database
    """A PgBouncer that may be killed."""
    with empty_database("direct") as url, start_pgbouncer(url) as pooler:
        yield pooler


@pytest.fixture
def frail(site: Site, pooler: Server) -> Iterator[Site]:
    """A site that sends, works and looks through it."""
    broker = Broker(site.broker.url, prefix=f"{site.broker.prefix}frail:")
    connections.databases["pooled"] = {**connection.settings_dict, **database_from_url(pooler.url)}
    frail = Site(site.directory, pooler.url, broker, site.journal, Rows("pooled"))
    yield frail
    frail.close()
    broker.clear()
    connections["pooled"].close()
    del connections["pooled"], connections.databases["pooled"]
