"""The place where workers die: one worker that most tests share, and sites apart for those who break more."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.db import connection

from tests.support.brokers.broker import Broker
from tests.support.brokers.control import LISTENING
from tests.support.ledger.databases import empty_database, test_database
from tests.support.ledger.rows import Rows
from tests.support.workers.journal import Journal
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

if TYPE_CHECKING:
    from pytest_django.plugin import DjangoDbBlocker


@pytest.fixture(scope="package")
def site(django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A database, a broker and a journal that worker processes share with these tests."""
    url = os.environ.get("CELERY_BROKER_URL", "")
    if connection.vendor != "postgresql" or not url.startswith("redis"):
        pytest.skip("needs PostgreSQL and Redis")
    directory = tmp_path_factory.mktemp("death")
    broker = Broker(url, prefix=f"death-{os.getpid()}:")
    with pytest.MonkeyPatch.context() as patch, django_db_blocker.unblock(), test_database() as database_url:
        patch.setenv("PROJ_DIRECTORY", str(directory))
        patch.setenv("PROJ_PREFIX", broker.prefix)
        site = Site(directory, database_url, broker, Journal(directory))
        yield site
        site.close()


@pytest.fixture(scope="package")
def _family(site: Site) -> Iterator[Worker]:
    worker = site.worker("family", "--concurrency", "4", PROJ_CELERY=json.dumps(LISTENING))
    yield worker
    worker.kill()


@pytest.fixture
def family(_family: Worker) -> Worker:
    """A living worker with four children, shared with other tests."""
    return _family if _family.is_alive else _family.start()


@pytest.fixture(scope="module")
def own_site(site: Site, request: pytest.FixtureRequest) -> Iterator[Site]:
    """A database and a queue of this module alone, without a worker; the journal is the same."""
    name = request.module.__name__.rpartition(".")[2]
    broker = Broker(site.broker.url, prefix=f"{site.broker.prefix}{name}:")
    with empty_database(name) as database_url:
        own = Site(site.directory, database_url, broker, site.journal, Rows(name))
        yield own
        own.close()


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the ends of the workers' logs under a failed test."""
    report = yield
    if report.failed and report.when == "call":
        for worker in Worker.living:
            report.sections.append((f"log of {worker.name}", worker.last_words()))
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long kill runs belong to ``make test-all``."""
    for item in items:
        if item.path.parent == Path(__file__).parent / "leased":
            item.add_marker(pytest.mark.slow)
