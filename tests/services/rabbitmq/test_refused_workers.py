"""RabbitMQ refuses what a worker needs: Celery ends the worker, and the next one has its work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

import pytest

from tests.sample import death
from tests.services.rabbitmq.conftest import ENVIRONMENT, Ground
from tests.services.rabbitmq.test_half_lost_connections import holds_a_call, is_done_once
from tests.support.brokers.rabbitmq import RabbitSite
from tests.support.brokers.vhost import Closings, Vhost, rabbitmqctl

pytestmark = [pytest.mark.process, pytest.mark.slow]


def the_next_one_does(site: RabbitSite, key: str) -> None:
    with site.running("next", "--concurrency", "2", **ENVIRONMENT):
        is_done_once(site, key)


def test_celery_ends_a_worker_whose_queue_is_there_with_other_arguments(ground: Ground, key: str) -> None:
    site = ground("classic", "refusal")
    death.brief.delay(key, [])  # which declares the queue
    other = json.dumps(site.queue_settings | {"task_queue_max_priority": 9})
    worker = site.worker("other", **{**ENVIRONMENT, "PROJ_CELERY": other}).launch()

    assert worker.wait(within=90) != 0
    assert "Unrecoverable error: PreconditionFailed(406" in worker.text()
    the_next_one_does(site, key)


def test_celery_ends_a_worker_whose_rights_were_taken(ground: Ground, vhost: Vhost, key: str) -> None:
    site = ground("classic", "refusal")
    worker = site.worker("refused", "--concurrency", "2", **ENVIRONMENT).start()
    holds_a_call(site, key)
    with no_rights(vhost):
        closings = Closings(vhost)
        closings.go_on("connections")
        closings.end()
        worker.wait_for_log("Unrecoverable error: AccessRefused(403")
        site.journal.open_all()  # Celery lets its bodies end first
        assert worker.wait() != 0
    the_next_one_does(site, key)


@contextmanager
def no_rights(vhost: Vhost) -> Iterator[None]:
    """Let the user of these tests do nothing in their vhost."""
    user = unquote(urlsplit(vhost.url).username or "guest")
    rabbitmqctl("set_permissions", "-p", vhost.name, user, "^$", "^$", "^$")
    try:
        yield
    finally:
        rabbitmqctl("set_permissions", "-p", vhost.name, user, ".*", ".*", ".*")
