"""Under solo, threads and gevent a worker says that it lives, also while its only place runs a body."""

from __future__ import annotations

import json

import pytest

from django_idempotent_tasks.states import State
from tests.processes.pools.house import House
from tests.sample import tasks
from tests.support.workers.present import present

pytestmark = pytest.mark.process


def test_a_worker_says_that_it_lives_while_a_body_runs(house: House, key: str) -> None:
    site = house.site
    site.send(tasks.skipping, key, gated=True)
    site.journal.started(key)
    row = present(site, house.worker)
    assert (row.pool, row.stopped_at) == (house.pool, None)
    assert json.loads(row.queues) == ["celery", house.pool]
    assert row.concurrency == (4 if house.runs_several else 1)
    assert tasks.skipping.name in json.loads(row.tasks)
    present(site, house.worker, that=lambda later: later.seen_at > row.seen_at)
    assert (site.rows.row(key).owner or "").startswith(f"{row.instance}:{row.pid}:")
    site.journal.open(f"{key}.1")
    site.rows.wait_for(key, State.SUCCEEDED)
