"""A shop whose orders are reserved, on a broker that may be killed and forgets everything then."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import override_settings

from example_project.servers import Server, start_broker
from tests.processes.reserved.shop import REPUBLISH_AFTER, Shop, forget_connections
from tests.sample.celery import app
from tests.support.brokers.rabbitmq import RabbitBroker, RabbitSite, rabbitmq_url
from tests.support.brokers.vhost import Vhost, alone, own_vhost, undisturbed  # noqa: F401  asked for by name
from tests.support.network.delays import LateProxy
from tests.support.workers.site import Site
from tests.support.workers.sites import _clean, key, on_broker, own_site, site  # noqa: F401  the same surroundings


@pytest.fixture
def server() -> Iterator[Server]:
    """A broker that loses everything when it is killed."""
    with start_broker(persistent=False) as server:
        yield server


@contextmanager
def _open(site: Site, options: dict[str, Any]) -> Iterator[Shop]:  # noqa: F811
    """Let this process sell: it reserves in the site's database and sends to its broker."""
    ours = {"REPUBLISH_AFTER": REPUBLISH_AFTER}
    shop = Shop(site, {"PROJ_IDEMPOTENT_TASKS": json.dumps(ours)}, options)
    before = app.conf.broker_transport_options
    with pytest.MonkeyPatch.context() as patch, shop.sending_to(site.broker.url):
        app.conf.broker_transport_options = {"global_keyprefix": site.broker.prefix}
        patch.setenv("PROJ_DIRECTORY", str(site.directory))
        with override_settings(IDEMPOTENT_TASKS={"DATABASE": site.rows.alias, **ours}):
            yield shop
        for worker in site.workers:
            worker.kill()
        app.conf.broker_transport_options = before
    site.close()
    forget_connections()


@pytest.fixture
def shop(own_site: Site, server: Server) -> Iterator[Shop]:  # noqa: F811
    """The shop, without workers yet; this process sends to its broker."""
    with on_broker(own_site, server.url) as place, _open(place, {}) as shop:
        yield shop


@pytest.fixture
def usual(shop: Shop) -> Iterator[Shop]:
    """The shop with the usual pause before a message is sent again: five minutes."""
    with override_settings(IDEMPOTENT_TASKS={"DATABASE": shop.site.rows.alias}):
        yield shop


@contextmanager
def _open_on_rabbitmq(own_site: Site, url: str) -> Iterator[Shop]:  # noqa: F811
    broker = RabbitBroker(url, f"reserve-{os.getpid()}")
    broker.clear()
    place = RabbitSite(own_site.directory, own_site.database_url, broker, own_site.journal, own_site.rows)
    with _open(place, {"queue": broker.prefix}) as shop:
        yield shop
        broker.clear()


@pytest.fixture
def rabbit_shop(own_site: Site, undisturbed: None) -> Iterator[Shop]:  # noqa: ARG001, F811
    """The same on RabbitMQ, with a queue of its own."""
    with _open_on_rabbitmq(own_site, rabbitmq_url()) as shop:
        yield shop


@pytest.fixture
def vhost() -> Iterator[Vhost]:
    """A vhost of RabbitMQ in which nobody else is disturbed."""
    with own_vhost() as vhost:
        yield vhost


@pytest.fixture
def vhost_shop(own_site: Site, vhost: Vhost) -> Iterator[Shop]:  # noqa: F811
    """The same in that vhost."""
    with _open_on_rabbitmq(own_site, vhost.url) as shop:
        yield shop


@contextmanager
def _proxy_of(shop: Shop) -> Iterator[LateProxy]:
    with LateProxy(urlsplit(shop.site.broker.url).port or 5672) as proxy:
        yield proxy


@pytest.fixture
def proxy(shop: Shop) -> Iterator[LateProxy]:
    """A way to the shop's broker that may become bad."""
    with _proxy_of(shop) as proxy:
        yield proxy


@pytest.fixture
def rabbit_proxy(rabbit_shop: Shop) -> Iterator[LateProxy]:
    """The same to RabbitMQ."""
    with _proxy_of(rabbit_shop) as proxy:
        yield proxy
