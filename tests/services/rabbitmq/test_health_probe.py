"""``idem health worker`` on RabbitMQ: canaries go through classic and quorum queues, and none is left."""

from __future__ import annotations

import json

import pytest

from django_idempotent_tasks.operations.health.worker import worker_health
from tests.sample.celery import app
from tests.services.rabbitmq.conftest import Ground
from tests.support.waiting import eventually
from tests.support.workers.processes import pause


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_worker_is_probed_through_its_queue(ground: Ground, kind: str) -> None:
    rabbit = ground(kind, "probe")
    queue = rabbit.broker.prefix
    celery = json.dumps(rabbit.queue_settings | {"worker_enable_remote_control": True})
    probed, other = (
        rabbit.worker(name, "--concurrency", "1", PROJ_CELERY=celery) for name in ("probed", "other")
    )
    probed.start()
    other.start()
    for _ in range(3):
        health = worker_health(app, "probed@tests", queues=None, within=10, max_busy=None)
        assert (health.problems, health.facts["queues"]) == ([], [queue])
    pause(other.process.pid)  # with the one message that it may prefetch
    for _ in range(3):
        assert worker_health(app, "probed@tests", queues=None, within=20, max_busy=None).problems == []
    other.resume()
    app.control.cancel_consumer(queue, destination=["probed@tests"], reply=True, timeout=10)
    ill = worker_health(app, "probed@tests", queues=None, within=5, max_busy=None)
    assert "consumes no queue" in ill.problems[0]
    assert worker_health(app, "other@tests", queues=None, within=10, max_busy=None).problems == []
    eventually(lambda: rabbit.broker.waiting() == 0, "no canary is left")
