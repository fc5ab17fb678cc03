"""Tasks of ``django.tasks`` in real workers: a killed child costs an attempt, the urgent ones go first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from tests.support.waiting import eventually
from tests.support.workers.processes import Worker, kill
from tests.support.workers.reserving import sending_to
from tests.support.workers.site import Site

pytest.importorskip("django_idempotent_tasks.backend", exc_type=ImportError)
from tests.sample import tasks_of_django as sample

pytestmark = [pytest.mark.process, pytest.mark.postgresql]

#: One message at a time, so that the broker's order is that of the bodies. Redis tells four priorities apart.
ONE = {"worker_prefetch_multiplier": 1}


@pytest.fixture
def worker(own_site: Site) -> Iterator[Worker]:
    """A worker that is not yet started; this process sends to it."""
    arguments = ("--concurrency", "1", "--include", sample.__name__)
    started = own_site.worker("django", *arguments, PROJ_CELERY=json.dumps(ONE))
    with sending_to(own_site):
        yield started
    started.kill()


def _finished(result: Any) -> Any:
    def look() -> bool:
        result.refresh()
        return bool(result.is_finished)

    eventually(look, "the task has finished")
    return result


def test_a_killed_child_costs_an_attempt_and_nothing_else(own_site: Site, worker: Worker, key: str) -> None:
    worker.start()
    result = sample.gated.enqueue(key)
    kill(own_site.journal.started(key)["pid"])
    assert _finished(result).return_value == 2
    assert (result.attempts, len(result.errors)) == (2, 1)
    assert len(own_site.rows.effects(key)) == 1


def test_a_worker_takes_the_urgent_ones_first_and_none_of_a_rollback(
    own_site: Site, worker: Worker, key: str
) -> None:
    with transaction.atomic(using=own_site.rows.alias):
        sample.told.enqueue(f"{key}-undone")
        transaction.set_rollback(True, using=own_site.rows.alias)
    results = [
        sample.told.using(priority=priority).enqueue(f"{key}{priority}") for priority in (-100, -50, 0, 100)
    ]
    worker.start()
    for result in results:
        _finished(result)
    order = [entry["key"] for entry in own_site.journal.read("told") if entry["key"].startswith(key)]
    assert order == [f"{key}{priority}" for priority in (100, 0, -50, -100)]
