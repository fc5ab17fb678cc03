"""A worker's connection is lost on its side alone: RabbitMQ still holds it, and what is exclusive to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from kombu import Connection

from django_idempotent_tasks.states import State
from tests.sample import death
from tests.sample.celery import app
from tests.services.rabbitmq.conftest import ENVIRONMENT, Ground
from tests.support.brokers.rabbitmq import RabbitSite, through
from tests.support.network.one_sided import OneSidedProxy
from tests.support.waiting import eventually
from tests.support.workers.processes import MINGLES, Worker

pytestmark = [pytest.mark.process, pytest.mark.slow]

#: In seconds. RabbitMQ gives a silent connection up after two of these at most.
HEARTBEAT = 4

LISTENING: dict[str, Any] = {
    "worker_enable_remote_control": True,
    "broker_heartbeat": HEARTBEAT,
    "worker_cancel_long_running_tasks_on_connection_loss": True,
}
#: What Celery 5.7 has by default, and 5.6 where a project says so.
EXCLUSIVE = LISTENING | {"control_queue_exclusive": True, "control_queue_durable": False}
#: The settings that the doctor's D408 asks for.
SHARED = LISTENING | {"control_queue_exclusive": False, "control_queue_durable": True}

on_both = pytest.mark.parametrize("kind", [pytest.param("classic", marks=pytest.mark.long), "quorum"])


@contextmanager
def behind(site: RabbitSite, name: str, settings: dict[str, Any]) -> Iterator[tuple[Worker, OneSidedProxy]]:
    """A worker that reaches RabbitMQ through a proxy, and mingles as workers do."""
    celery = json.dumps(site.queue_settings | settings)
    with OneSidedProxy(urlsplit(site.broker.url).port or 5672) as proxy:
        url = through(proxy.port, site.broker.url)
        environment = {**ENVIRONMENT, "PROJ_CELERY": celery, "CELERY_BROKER_URL": url}
        with site.running(name, MINGLES, "--concurrency", "2", **environment) as worker:
            yield worker, proxy


def holds_a_call(site: RabbitSite, key: str) -> str:
    """Send a call whose body waits at its gate; its id."""
    call: str = death.brief.delay(key, ["wait"]).id
    site.journal.started(key)
    return call


def consumers_of_commands(site: RabbitSite, node: str) -> int:
    with Connection(site.broker.url) as connection:
        channel: Any = connection.channel()
        return int(channel.queue_declare(f"{node}.celery.pidbox", passive=True).consumer_count)


def is_done_once(site: RabbitSite, key: str) -> None:
    site.rows.wait_for(key, State.SUCCEEDED)
    assert len(site.rows.effects(key)) == 1
    site.broker.wait_until_empty()


@on_both
def test_celery_ends_a_worker_whose_control_queue_is_exclusive_and_its_work_goes_on_elsewhere(
    ground: Ground, key: str, kind: str
) -> None:
    site = ground(kind, "half")
    with behind(site, f"{kind}-exclusive", EXCLUSIVE) as (worker, proxy):
        holds_a_call(site, key)
        proxy.cut_clients()
        assert worker.wait() != 0
        assert "Unrecoverable error: ResourceLocked(405" in worker.text()
        death.brief.delay(f"{key}-later", [])
        with site.running("second", "--concurrency", "2", **ENVIRONMENT):
            for each in (key, f"{key}-later"):
                is_done_once(site, each)


@on_both
def test_a_worker_whose_control_queue_is_shared_and_durable_goes_on_and_listens(
    ground: Ground, key: str, kind: str
) -> None:
    site = ground(kind, "half")
    node = f"{kind}-shared@tests"
    with behind(site, f"{kind}-shared", SHARED) as (worker, proxy):
        holds_a_call(site, key)
        proxy.cut_clients()
        death.brief.delay(f"{key}-later", [])
        for each in (key, f"{key}-later"):
            is_done_once(site, each)
        assert worker.is_alive
        assert worker.text().count("Connected to") == 2

        # Until RabbitMQ gives the old connection up, every second command goes to a consumer that is gone.
        eventually(lambda: consumers_of_commands(site, node) == 1, "the old connection is given up")
        assert app.control.ping(destination=[node], timeout=10, limit=1) == [{node: {"ok": "pong"}}]
        call = holds_a_call(site, f"{key}-revoked")
        app.control.revoke(call, terminate=True, destination=[node])
        site.rows.wait_for(f"{key}-revoked", State.CANCELLED)
