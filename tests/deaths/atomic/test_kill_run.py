"""Children and workers are killed at any moment under many atomic calls: each has its effect once."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.workers.reserving import sending_to
from tests.support.workers.site import Site
from tests.support.workers.storm import RETRIED, Storm

pytestmark = pytest.mark.process

OURS = {"REPUBLISH_AFTER": 3}
ENVIRONMENT = {
    "PROJ_VISIBILITY_TIMEOUT": "2",
    "PROJ_RESULT_BACKEND": "disabled://",
    "PROJ_IDEMPOTENT_TASKS": json.dumps(OURS),
}


@pytest.fixture
def storm(own_site: Site, key: str) -> Iterator[Storm]:
    """Two workers with two children each, not yet started; this process sends to them."""
    workers = [
        own_site.worker(f"{name}-{key[-8:]}", "--concurrency", "2", **ENVIRONMENT)
        for name in ("first", "second")
    ]
    with sending_to(own_site, **OURS):
        yield Storm(own_site, key, workers)
    for worker in workers:
        worker.kill()


@pytest.mark.parametrize(
    ("calls", "kills"), [(150, 10), pytest.param(1000, 60, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_every_key_has_succeeded_with_one_effect(storm: Storm, calls: int, kills: int) -> None:
    storm.send(calls)
    storm.rage(kills)
    storm.calm()

    assert sum(storm.killed.values()) == kills
    assert storm.effects() == dict.fromkeys(storm.keys, 1)
    starts = sum(1 for _ in storm.starts())
    retried = sum(number % RETRIED == 2 for number in range(calls))
    print(f"{starts} starts of {calls} calls, {retried} of them retried once")
    assert starts > calls + retried, "the kills struck nobody"
