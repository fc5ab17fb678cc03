"""The fixtures of tests with worker processes: a site for a folder, a site for a module, a key for a test.

A folder's conftest imports the fixtures that it wants: one of scope ``package`` belongs to the folder whose
conftest defines or imports it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import pytest
from django.db import connection

from tests.support.brokers.broker import Broker
from tests.support.ledger.databases import empty_database, migrated_database, test_database
from tests.support.ledger.rows import Rows
from tests.support.workers.journal import Journal
from tests.support.workers.processes import Worker
from tests.support.workers.site import Pair, Site

if TYPE_CHECKING:
    from pytest_django.plugin import DjangoDbBlocker

#: What lets a child keep its connection from task to task, without testing it first.
KEPT = {"PROJ_IDEMPOTENT_TASKS": '{"KEEP_CONNECTIONS": true}', "PROJ_CONN_MAX_AGE": "600"}


@contextmanager
def open_site(
    tmp_path_factory: pytest.TempPathFactory, database: AbstractContextManager[str] | None = None
) -> Iterator[Site]:
    """A directory, a broker and a database (Django's test database) that workers share with tests."""
    url = os.environ.get("CELERY_BROKER_URL", "")
    if connection.vendor != "postgresql" or not url.startswith("redis"):
        pytest.skip("needs PostgreSQL and Redis")
    directory = tmp_path_factory.mktemp("site")
    broker = Broker(url, prefix=f"site-{os.getpid()}:")
    with pytest.MonkeyPatch.context() as patch, database or test_database() as database_url:
        patch.setenv("PROJ_DIRECTORY", str(directory))
        patch.setenv("PROJ_PREFIX", broker.prefix)
        site = Site(directory, database_url, broker, Journal(directory))
        yield site
        site.close()


@contextmanager
def site_apart(site: Site, name: str, way: Callable[[str], str] = str) -> Iterator[Site]:
    """A database and a queue that other workers do not see; ``way`` says how workers reach the database."""
    broker = Broker(site.broker.url, prefix=f"{site.broker.prefix}{name}:")
    with empty_database(name) as database_url:
        apart = Site(site.directory, way(database_url), broker, site.journal, Rows(name))
        yield apart
        apart.close()


@contextmanager
def on_broker(site: Site, url: str) -> Iterator[Site]:
    """The same place, where the broker is another one."""
    broker = Broker(url, site.broker.prefix)
    place = Site(site.directory, site.database_url, broker, site.journal, site.rows)
    yield place
    place.close()


@contextmanager
def on_database(site: Site, url: str, name: str) -> Iterator[Site]:
    """A queue of its own, and the ledger in another server's database, known to Django by this name."""
    broker = Broker(site.broker.url, prefix=f"{site.broker.prefix}{name}:")
    with migrated_database(url, name):
        place = Site(site.directory, url, broker, site.journal, Rows(name))
        yield place
        place.close()


def keeping_worker(site: Site, name: str, **environment: str) -> AbstractContextManager[Worker]:
    """A worker with one such child."""
    return site.running(name, "--concurrency", "1", **KEPT, **environment)


def name_of(request: pytest.FixtureRequest) -> str:
    """The last part of the name of the test's module."""
    return str(request.module.__name__).rpartition(".")[2]


@pytest.fixture(scope="package")
def site(
    request: pytest.FixtureRequest,
    django_db_blocker: DjangoDbBlocker,
    template: None,  # noqa: ARG001
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Site]:
    """A test database, a broker, a directory and a journal that worker processes share with these tests."""
    # One that a module imports would live to the end of the session, beside the sites of other folders.
    assert isinstance(request.node, pytest.Package), "import it in the conftest of a folder"
    with django_db_blocker.unblock(), open_site(tmp_path_factory) as site:
        yield site


@pytest.fixture(scope="module")
def own_site(site: Site, request: pytest.FixtureRequest) -> Iterator[Site]:
    """A database and a queue of this module alone, without a worker; the journal is the same."""
    with site_apart(site, name_of(request)) as own:
        yield own


@pytest.fixture
def pair(_pair: Pair) -> Pair:
    """Two living, idle workers."""
    return _pair.ready()


@pytest.fixture(autouse=True)
def _clean(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave no work behind: bodies are let go, queues and tables emptied."""
    yield
    for name in {"site", "own_site"} & set(request.fixturenames):
        used = request.getfixturevalue(name)
        used.settle()
        used.rows.clear()


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    """A key of this test alone."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return f"{name[:90]}-{os.urandom(4).hex()}"
