"""One worker of each pool that is not prefork, and keys whose owner, a worker of another pool, was killed."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator

import pytest

from django_idempotent_tasks.states import State
from tests.processes.pools.house import House
from tests.sample import tasks
from tests.support.brokers.control import LISTENING
from tests.support.waiting import eventually
from tests.support.workers.site import Site
from tests.support.workers.sites import key, site  # noqa: F401  the same surroundings

POOLS = {"solo": 1, "threads": 4, "gevent": 4}

#: Connections are kept wherever a thread outlives its task.
SETTINGS = {
    "PROJ_CELERY": json.dumps(LISTENING),
    "PROJ_IDEMPOTENT_TASKS": json.dumps({"KEEP_CONNECTIONS": True, "REPUBLISH_AFTER": 1}),
    "PROJ_CONN_MAX_AGE": "600",
}


@pytest.fixture(scope="package")
def _orphans(site: Site) -> dict[str, str]:  # noqa: F811
    """A key for each pool, on its queue, whose first owner was killed inside the body."""
    keys = {pool: f"orphan of {pool}" for pool in POOLS}
    with site.running("victim", "--pool", "threads", "--concurrency", "3", "-Q", ",".join(POOLS), **SETTINGS):
        for pool, orphan in keys.items():
            site.send(tasks.skipping, orphan, gated=True, options={"queue": pool})
        for orphan in keys.values():
            site.journal.started(orphan)
    site.broker.clear()  # it took its messages with it
    return keys


@pytest.fixture(scope="package", params=POOLS)
def _house(request: pytest.FixtureRequest, site: Site, _orphans: dict[str, str]) -> Iterator[House]:  # noqa: F811
    pool: str = request.param
    if pool == "gevent" and importlib.util.find_spec("gevent") is None:
        pytest.skip("gevent is not installed: pip install gevent")
    arguments = ("--pool", pool, "--concurrency", str(POOLS[pool]), "-Q", f"celery,{pool}")
    worker = site.worker(pool, *arguments, "--include", "tests.processes.pools.house", **SETTINGS).start()
    yield House(pool, site, worker, _orphans[pool])
    site.broker.clear()
    site.settle()
    worker.terminate()
    assert worker.wait() == 0, "a warm shutdown ends the worker and its sweeper"
    worker.kill()


@pytest.fixture
def house(_house: House) -> Iterator[House]:
    """A living worker of the pool."""
    yield _house
    place = _house.site

    def has_no_orphan() -> bool:
        """Whether the worker has done the orphan of its pool, whose body may begin at any moment."""
        place.journal.open_all()
        row = place.rows.find(_house.orphan)
        return row is None or row.state == State.SUCCEEDED

    eventually(has_no_orphan, "the orphan is done", within=30)
    place.broker.clear()  # the orphans of other pools wait in queues that no worker takes from now
    place.settle()
