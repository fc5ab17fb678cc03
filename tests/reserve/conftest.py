"""A shop whose orders are reserved, on a broker that may be killed and forgets everything then."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from django.test import override_settings

from django_idempotent_tasks.relay import relay
from example_project.servers import Server, start_broker
from tests.process.conftest import _clean, key, own_site, site  # noqa: F401  the same surroundings
from tests.proj.celery import app
from tests.reserve.shop import REPUBLISH_AFTER, Shop
from tests.support.broker import Broker
from tests.support.site import Site


@pytest.fixture
def server() -> Iterator[Server]:
    """A broker that loses everything when it is killed."""
    with start_broker(persistent=False) as server:
        yield server


@pytest.fixture
def shop(own_site: Site, server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:  # noqa: F811
    """The shop, without workers yet; this process sends to its broker."""
    broker = Broker(server.url, own_site.broker.prefix)
    site = Site(own_site.directory, own_site.database_url, broker, own_site.journal, own_site.rows)  # noqa: F811
    settings = {"DATABASE": site.rows.alias, "REPUBLISH_AFTER": REPUBLISH_AFTER}
    monkeypatch.setenv("CELERY_BROKER_URL", server.url)  # which Celery prefers to its configuration
    before = app.conf.broker_transport_options
    app.conf.broker_transport_options = {"global_keyprefix": broker.prefix}
    relay.forget()
    with override_settings(IDEMPOTENT_TASKS=settings):
        yield Shop(site, server, {"PROJ_IDEMPOTENT_TASKS": json.dumps({"REPUBLISH_AFTER": REPUBLISH_AFTER})})
    for worker in site.workers:
        worker.kill()
    app.conf.broker_transport_options = before
    site.close()
