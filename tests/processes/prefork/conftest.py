"""Two workers that all tests here share, where they meet the tests, and clean tables for each test."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest
from django.db import connection

from tests.support.brokers.broker import Broker
from tests.support.ledger.databases import empty_database, test_database
from tests.support.ledger.rows import Rows
from tests.support.workers.journal import Journal
from tests.support.workers.processes import Worker
from tests.support.workers.site import Pair, Site

if TYPE_CHECKING:
    from pytest_django.plugin import DjangoDbBlocker


@pytest.fixture(scope="package")
def site(django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A test database, a broker and a directory that are open to worker processes."""
    url = os.environ.get("CELERY_BROKER_URL", "")
    if connection.vendor != "postgresql" or not url.startswith("redis"):
        pytest.skip("needs PostgreSQL and Redis")
    directory = tmp_path_factory.mktemp("proj")
    broker = Broker(url, prefix=f"proj-{os.getpid()}:")
    with pytest.MonkeyPatch.context() as patch, django_db_blocker.unblock(), test_database() as database_url:
        patch.setenv("PROJ_DIRECTORY", str(directory))
        patch.setenv("PROJ_PREFIX", broker.prefix)
        site = Site(directory, database_url, broker, Journal(directory))
        yield site
        site.close()


@pytest.fixture(scope="package")
def _pair(site: Site) -> Iterator[Pair]:
    pair = site.pair()
    yield pair
    pair.kill()


@pytest.fixture(scope="module")
def own_site(site: Site, request: pytest.FixtureRequest) -> Iterator[Site]:
    """A database and a queue that the two shared workers do not see; the journal is the same."""
    name = request.module.__name__.rpartition(".")[2]
    broker = Broker(site.broker.url, prefix=f"{site.broker.prefix}{name}:")
    with empty_database(name) as database_url:
        own = Site(site.directory, database_url, broker, site.journal, Rows(name))
        yield own
        own.close()


@pytest.fixture(autouse=True)
def _clean(site: Site, request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave no work behind: bodies are let go, queues and tables emptied."""
    yield
    sites = [site]
    if "own_site" in request.fixturenames:
        sites.append(request.getfixturevalue("own_site"))
    for used in sites:
        used.settle()
        used.rows.clear()


@pytest.fixture
def pair(_pair: Pair) -> Pair:
    """Two living, idle workers with one child each."""
    return _pair.ready()


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    """A key of this test alone."""
    return f"{request.node.name[:80]}-{os.urandom(4).hex()}".replace("/", "-")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the ends of the workers' logs under a failed test."""
    report = yield
    if report.failed and report.when == "call":
        for worker in Worker.living:
            report.sections.append((f"log of {worker.name}", worker.last_words()))
    return report
