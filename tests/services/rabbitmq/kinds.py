"""The queues that Celery can have on RabbitMQ, and this process as one that sends to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.test import override_settings
from kombu import pools

from django_idempotent_tasks.messages.relay import relay
from tests.processes.reserved.shop import forget_connections
from tests.sample.celery import app
from tests.support.brokers.rabbitmq import RabbitSite

#: Seconds after which the sweeper sends again what was not claimed.
REPUBLISH_AFTER = 3

CLASSIC: dict[str, Any] = {}
#: On its direct exchange a worker keeps messages with a countdown until they are due.
QUORUM = {"task_default_queue_type": "quorum", "task_create_missing_queue_type": "quorum"}
#: On a topic exchange they wait in the broker, in queues of their own.
DELAYED = {
    **QUORUM,
    "task_default_exchange_type": "topic",
    "task_create_missing_queue_exchange_type": "topic",
}
#: In ``make test-services`` the kind with the most of its own stands for all.
LONG = ("classic", "quorum")
KINDS: dict[str, dict[str, Any]] = {"classic": CLASSIC, "quorum": QUORUM, "delayed": DELAYED}


@contextmanager
def sending_to(site: RabbitSite) -> Iterator[None]:
    """Let this process send to the site's queue and reserve in its database, as a web process does."""
    ours = {"DATABASE": site.rows.alias, "REPUBLISH_AFTER": REPUBLISH_AFTER}
    theirs = {**site.queue_settings, "broker_transport_options": {}}
    before = {name: app.conf[name] for name in {*DELAYED, *theirs}}  # the look reads the configuration
    with pytest.MonkeyPatch.context() as patch, override_settings(IDEMPOTENT_TASKS=ours):
        patch.setenv("CELERY_BROKER_URL", site.broker.url)  # which Celery prefers to its configuration
        _begin_anew(theirs)
        yield
    _begin_anew(before)


def _begin_anew(settings: dict[str, Any]) -> None:
    """Let the app have these settings, and connect again."""
    app.conf.update(settings)
    vars(app).pop("amqp", None)
    pools.reset()  # or they would still know queues as declared that are gone
    app._after_fork()  # type: ignore[attr-defined]  # not in the stubs
    relay._closed_until = 0
    forget_connections()
