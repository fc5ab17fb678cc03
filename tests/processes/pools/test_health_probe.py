"""``idem health worker`` sees that a worker of each pool takes and runs messages, and spares one at work."""

from __future__ import annotations

import pytest

from django_idempotent_tasks.operations.health.worker import worker_health
from tests.processes.pools.house import House
from tests.sample import tasks
from tests.sample.celery import app
from tests.support.waiting import eventually
from tests.support.workers.reserving import sending_to

pytestmark = pytest.mark.process


def test_an_idle_worker_is_well(house: House) -> None:
    with sending_to(house.site):
        health = worker_health(app, f"{house.pool}@tests", queues=None, within=15, max_busy=None)
        assert (health.problems, health.facts["queues"]) == ([], ["celery", house.pool])
        eventually(lambda: not house.site.broker.waiting(house.pool), "no canary is left")


def test_a_worker_with_a_free_place_is_well_beside_a_body_that_runs(house: House, key: str) -> None:
    if not house.runs_several:
        pytest.skip("solo answers nobody while a body runs, as the documentation says")
    house.site.send(tasks.skipping, key, gated=True)
    house.site.journal.started(key)
    with sending_to(house.site):
        health = worker_health(app, f"{house.pool}@tests", queues=None, within=15, max_busy=None)
    assert health.problems == []
