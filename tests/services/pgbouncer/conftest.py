"""Workers whose only way to the database is a PgBouncer in transaction mode; the tests look on directly."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from django.db import connection, connections

from example_project.database_url import database_from_url
from example_project.servers import Server
from tests.processes.prefork.conftest import _clean, _pair, key, pair
from tests.support.brokers.broker import Broker
from tests.support.ledger.databases import empty_database, test_database
from tests.support.ledger.pgbouncer import behind, find_pgbouncer, start_pgbouncer
from tests.support.ledger.rows import Rows
from tests.support.workers.journal import Journal
from tests.support.workers.site import Site

if TYPE_CHECKING:
    from pytest_django.plugin import DjangoDbBlocker

__all__ = ["_clean", "_pair", "key", "pair"]


@pytest.fixture(scope="package")
def site(django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A test database behind a pooler, a broker and a directory that are open to worker processes."""
    broker_url = os.environ.get("CELERY_BROKER_URL", "")
    if connection.vendor != "postgresql" or not broker_url.startswith("redis"):
        pytest.skip("needs PostgreSQL and Redis")
    if find_pgbouncer() is None:
        pytest.skip("needs PgBouncer: apt-get install pgbouncer")
    directory = tmp_path_factory.mktemp("proj")
    broker = Broker(broker_url, prefix=f"pgbouncer-{os.getpid()}:")
    with (
        pytest.MonkeyPatch.context() as patch,
        django_db_blocker.unblock(),
        test_database() as url,
        start_pgbouncer(url) as pooler,
    ):
        patch.setenv("PROJ_DIRECTORY", str(directory))
        patch.setenv("PROJ_PREFIX", broker.prefix)
        site = Site(directory, pooler.url, broker, Journal(directory))
        yield site
        site.close()


@pytest.fixture(scope="module")
def own_site(site: Site, request: pytest.FixtureRequest) -> Iterator[Site]:
    """A database and a queue that the shared workers do not see; the journal and the pooler are the same."""
    name = request.module.__name__.rpartition(".")[2]
    broker = Broker(site.broker.url, prefix=f"{site.broker.prefix}{name}:")
    with empty_database(name) as url:
        own = Site(
            site.directory,
            behind(url, urlsplit(site.database_url).port or 0),
            broker,
            site.journal,
            Rows(name),
        )
        yield own
        own.close()


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
    del connections["pooled"], connections.databases["pooled"]
