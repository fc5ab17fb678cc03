"""Messages with a countdown on quorum queues come back to their own queue, on time, whoever keeps them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from django_idempotent_tasks.messages.address import address_of
from django_idempotent_tasks.messages.message import Message
from django_idempotent_tasks.messages.queues import Depths
from django_idempotent_tasks.messages.relay import bounded_connection
from django_idempotent_tasks.states import State
from tests.sample import death
from tests.sample.celery import app
from tests.sample.reserving import ordering
from tests.sample.tasks import replaying
from tests.services.rabbitmq.conftest import ENVIRONMENT, Ground, site_of
from tests.support.brokers.rabbitmq import RabbitSite
from tests.support.brokers.vhost import Vhost
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

pytestmark = [pytest.mark.process, pytest.mark.slow]

#: A queue that only one of the workers takes from.
OTHER = "other"
QUIET = json.dumps({"SWEEPER": "off"})


@dataclass
class Two:
    """A worker of the usual queue, and one of the other; none sweeps."""

    site: RabbitSite
    usual: Worker
    other: Worker


@pytest.fixture(scope="module", params=[pytest.param("quorum", marks=pytest.mark.long), "delayed"])
def two(request: pytest.FixtureRequest, site: Site, vhost: Vhost) -> Iterator[Two]:
    """Both are running."""
    quiet = {"PROJ_IDEMPOTENT_TASKS": QUIET}
    queue = f"{OTHER}-{request.param}"
    arguments = ("--concurrency", "2", "--queues")
    with (
        site_of(site, vhost, request.param, "delays") as own,
        own.running("usual", *arguments, own.broker.prefix, **quiet) as usual,
        own.running("other", *arguments, queue, **quiet) as other,
    ):
        other.name = queue
        yield Two(own, usual, other)


def test_a_retry_with_a_countdown_comes_back_to_its_own_queue(two: Two, key: str) -> None:
    plan = ["retry in a second", "retry in two seconds"] * 2
    death.acting.apply_async((key, plan), queue=two.other.name)

    two.site.rows.wait_for(key, State.SUCCEEDED)
    children = two.other.children()
    assert [entry["pid"] in children for entry in two.site.journal.read("started", key)] == [True] * 5


def test_a_copy_that_waits_for_a_result_comes_back_to_its_own_queue(two: Two, key: str) -> None:
    """Two calls of one key, of which the second one waits: twice, so that its copy is copied as well."""
    replaying.apply_async((key,), {"gated": True}, queue=two.other.name)
    two.site.journal.started(key)
    second = replaying.apply_async((key,), {"gated": True}, queue=two.other.name).id
    eventually(lambda: two.other.text().count(f"[{second}] received") >= 3, "two copies came")
    two.site.journal.open(f"{key}.1")

    two.other.wait_for_log(f"[{second}] succeeded")
    assert second not in two.usual.text()
    assert two.site.journal.starts(key) == 1


def test_a_retry_in_less_than_a_second_is_sent_by_the_worker(two: Two, key: str) -> None:
    death.acting.delay(key, ["retry very soon"])

    two.site.rows.wait_for(key, State.SUCCEEDED)
    assert two.site.journal.starts(key) == 2


@pytest.mark.parametrize("countdown", [0.4, pytest.param(1.0, marks=pytest.mark.long), 2.0])
def test_a_reserved_call_with_a_short_countdown_is_sent_at_once_and_runs_on_time(
    two: Two, key: str, countdown: float
) -> None:
    ordering.apply_async((key,), countdown=countdown)
    assert two.site.rows.row(key).sends == 0

    row = two.site.rows.wait_for(key, State.SUCCEEDED)
    assert row.started_at is not None
    assert (row.started_at - row.created_at).total_seconds() >= countdown - 0.1


@pytest.mark.parametrize("kind", ["quorum", "delayed"])
def test_the_depth_of_a_quorum_queue_is_told_also_for_a_message_that_names_its_exchange(
    ground: Ground, kind: str
) -> None:
    site = ground(kind, "depths")
    for number in range(3):
        death.acting.delay(f"deep-{number}", [])
    eventually(lambda: site.broker.waiting() == 3, "they wait")
    info = {"exchange": site.broker.prefix, "routing_key": site.broker.prefix}
    with bounded_connection(app) as connection:
        delivered = Message.of(death.acting.name, (), {}, address_of(app, info))
        assert Depths(app, connection).of(delivered) == 3
        named = Message.of(death.acting.name, (), {}, {"queue": site.broker.prefix})
        assert Depths(app, connection).of(named) == 3
        elsewhere = Message.of(death.acting.name, (), {}, {"queue": f"{OTHER}-nowhere"})
        assert Depths(app, connection).of(elsewhere) == 0


@pytest.mark.long
def test_a_deep_quorum_queue_is_not_doubled_and_an_empty_one_is_filled(ground: Ground, key: str) -> None:
    site = ground("quorum", "depths")
    ordering.delay(key)
    with site.running("elsewhere", "--queues", "nobody-sends-here", **ENVIRONMENT):
        looked = lambda: site.rows.row(key).sends >= 2  # noqa: E731
        eventually(looked, "it was looked at twice", within=60)
        assert site.broker.waiting() == 1
        site.broker.clear()
        eventually(lambda: site.broker.waiting() == 1, "it is sent again", within=60)
    with site.running("first", **ENVIRONMENT):
        site.rows.wait_for(key, State.SUCCEEDED)
    assert (site.journal.starts(key), len(site.rows.effects(key))) == (1, 1)
