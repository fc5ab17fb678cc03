"""The place where workers die: one worker that most tests share, and sites apart for those who break more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.brokers.control import LISTENING
from tests.support.network.far import far_server, way
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site
from tests.support.workers.sites import _clean, key, own_site, pair, site

__all__ = ["_clean", "far_server", "key", "own_site", "pair", "site", "way"]


@pytest.fixture(scope="package")
def _family(site: Site) -> Iterator[Worker]:
    worker = site.worker("family", "--concurrency", "4", PROJ_CELERY=json.dumps(LISTENING))
    yield worker
    worker.kill()


@pytest.fixture
def family(_family: Worker) -> Worker:
    """A living worker with four children, shared with other tests."""
    return _family if _family.is_alive else _family.start()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long kill runs belong to ``make test-all``."""
    for item in items:
        if item.path.parent == Path(__file__).parent / "leased":
            item.add_marker(pytest.mark.slow)
