"""A vhost of these tests' own, and in it a site for each kind of queue."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.services.rabbitmq.kinds import KINDS, LONG, REPUBLISH_AFTER, sending_to
from tests.support.brokers.rabbitmq import RabbitBroker, RabbitSite
from tests.support.brokers.vhost import Vhost, alone, own_vhost, undisturbed  # noqa: F401  asked for by name
from tests.support.ledger.databases import empty_database
from tests.support.ledger.rows import Rows
from tests.support.workers.site import Pair, Site
from tests.support.workers.sites import key, pair, site  # noqa: F401  the same surroundings

ENVIRONMENT = {"PROJ_IDEMPOTENT_TASKS": json.dumps({"REPUBLISH_AFTER": REPUBLISH_AFTER})}

#: Makes the site of a kind of queue, under a name of its own; this process sends to it.
Ground = Callable[[str, str], RabbitSite]


@pytest.fixture(scope="package")
def vhost(site: Site) -> Iterator[Vhost]:  # noqa: ARG001, F811  skips where there are no surroundings
    """A vhost of RabbitMQ in which nobody else is disturbed."""
    with own_vhost("rabbitmq") as vhost:
        yield vhost


@pytest.fixture(autouse=True)
def _undisturbed(undisturbed: None) -> None:  # noqa: F811
    """No test beside these blocks the node."""


@contextmanager
def site_of(site: Site, vhost: Vhost, kind: str, name: str) -> Iterator[RabbitSite]:  # noqa: F811
    with empty_database(f"rabbitmq_{name}") as url:
        broker = RabbitBroker(vhost.url, prefix=f"{name}-{kind}")
        rows = Rows(f"rabbitmq_{name}")
        rabbit = RabbitSite(site.directory, url, broker, site.journal, rows, celery=KINDS[kind])
        with sending_to(rabbit):
            yield rabbit
            rabbit.settle()
            rabbit.close()


@pytest.fixture
def ground(site: Site, vhost: Vhost) -> Iterator[Ground]:  # noqa: F811
    """Makes a site that is gone after the test."""
    with ExitStack() as stack:
        yield lambda kind, name: stack.enter_context(site_of(site, vhost, kind, name))


@pytest.fixture(
    scope="module",
    params=[pytest.param(kind, marks=[pytest.mark.long] * (kind in LONG)) for kind in KINDS],
)
def queue(request: pytest.FixtureRequest, site: Site, vhost: Vhost) -> Iterator[RabbitSite]:  # noqa: F811
    """A site of each kind, one after the other, without workers yet."""
    with site_of(site, vhost, request.param, "kills") as queue:
        yield queue


@pytest.fixture(scope="module")
def _pair(queue: RabbitSite) -> Iterator[Pair]:
    both = queue.pair("--concurrency", "2", **ENVIRONMENT)
    yield both
    both.kill()
