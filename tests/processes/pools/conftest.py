"""One worker of each pool that is not prefork, and keys whose owner, a worker of another pool, was killed."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator

import pytest

from tests.processes.pools.house import House
from tests.support.brokers.control import LISTENING
from tests.support.workers.site import Site
from tests.support.workers.sites import key, site  # noqa: F401  the same surroundings

POOLS = {"solo": 1, "threads": 4, "gevent": 4}

#: Connections are kept wherever a thread outlives its task.
SETTINGS = {
    "PROJ_CELERY": json.dumps(LISTENING),
    "PROJ_IDEMPOTENT_TASKS": json.dumps({"KEEP_CONNECTIONS": True, "REPUBLISH_AFTER": 1}),
    "PROJ_CONN_MAX_AGE": "600",
}


@pytest.fixture(scope="package", params=POOLS)
def _house(request: pytest.FixtureRequest, site: Site) -> Iterator[House]:  # noqa: F811
    pool: str = request.param
    if pool == "gevent" and importlib.util.find_spec("gevent") is None:
        pytest.skip("gevent is not installed: pip install gevent")
    arguments = ("--pool", pool, "--concurrency", str(POOLS[pool]), "-Q", f"celery,{pool}")
    worker = site.worker(pool, *arguments, "--include", "tests.processes.pools.house", **SETTINGS).start()
    yield House(pool, site, worker)
    site.settle()
    worker.terminate()
    assert worker.wait() == 0, "a warm shutdown ends the worker and its sweeper"
    worker.kill()


@pytest.fixture
def house(_house: House) -> Iterator[House]:
    """A living worker of the pool."""
    yield _house
    _house.site.settle()
