"""A quorum queue drops what it delivered too often: no work with a row is lost, poison is still bounded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from django_idempotent_tasks.states import Reason, State
from example_project.servers import start_postgres
from tests.sample import atomic, death, tasks
from tests.services.rabbitmq.conftest import ENVIRONMENT, Ground
from tests.services.rabbitmq.kinds import sending_to
from tests.support.brokers.rabbitmq import RabbitBroker, RabbitSite
from tests.support.brokers.vhost import Vhost
from tests.support.ledger.databases import migrated_database
from tests.support.ledger.rows import Rows
from tests.support.waiting import eventually

pytestmark = [pytest.mark.process, pytest.mark.slow]

MODES = {
    "leased": (death.brief, "die", "wait"),
    "atomic": (atomic.acting, "written: die", "written: wait"),
    "reserved": (atomic.reserved, "written: die", "written: wait"),
}
long = pytest.mark.long
in_each_mode = pytest.mark.parametrize(
    "mode", ["atomic", pytest.param("leased", marks=long), pytest.param("reserved", marks=long)]
)


@contextmanager
def limited(vhost: Vhost, site: RabbitSite, deliveries: int) -> Iterator[None]:
    """Let the queue drop what comes back more often than that."""
    with vhost.policy(site.broker.prefix, **{"delivery-limit": deliveries}):
        yield


@in_each_mode
def test_work_whose_message_was_dropped_when_its_child_died_is_sent_again(
    ground: Ground, vhost: Vhost, key: str, mode: str
) -> None:
    site, (task, die, _) = ground("quorum", "limited"), MODES[mode]
    with limited(vhost, site, 0), site.running("first", "--concurrency", "2", **ENVIRONMENT):
        task.delay(key, [die, die])
        row = site.rows.wait_for(key, State.SUCCEEDED, within=60)
        assert (site.journal.starts(key), row.crashes, len(site.rows.effects(key))) == (3, 2, 1)


@pytest.mark.parametrize("mode", ["leased", pytest.param("reserved", marks=long)])
def test_work_whose_message_was_dropped_when_its_worker_died_is_sent_again(
    ground: Ground, vhost: Vhost, key: str, mode: str
) -> None:
    site, (task, _, wait) = ground("quorum", "limited"), MODES[mode]
    with limited(vhost, site, 0):
        with site.running("first", **ENVIRONMENT):
            task.delay(key, [wait])
            eventually((site.directory / f"{key}.1.visited").exists, "the body waits")
        with site.running("second", **ENVIRONMENT):
            site.rows.wait_for(key, State.SUCCEEDED, within=60)
            assert (site.journal.starts(key), len(site.rows.effects(key))) == (2, 1)


@long
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("deliveries", [0, 1, 20])
def test_poison_ends_after_its_crashes_whatever_the_limit_is(
    ground: Ground, vhost: Vhost, key: str, mode: str, deliveries: int
) -> None:
    site, (task, die, _) = ground("quorum", "limited"), MODES[mode]
    with limited(vhost, site, deliveries), site.running("first", "--concurrency", "2", **ENVIRONMENT):
        task.delay(key, [die] * 9)
        row = site.rows.wait_for(key, State.FAILED, within=60)
        assert (row.reason, row.crashes, site.journal.starts(key)) == (Reason.POISON, 3, 3)


CALLS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "leased": (tasks.impatient, ()),
    "atomic": (atomic.impatient, ([],)),
}


@pytest.mark.parametrize("mode", ["leased", pytest.param("atomic", marks=long)])
def test_a_ledger_that_is_down_for_more_deliveries_than_the_limit_loses_no_message(
    ground: Ground, vhost: Vhost, key: str, mode: str
) -> None:
    host, (task, more) = ground("quorum", "limited"), CALLS[mode]
    broker = RabbitBroker(vhost.url, f"outage-{mode}")
    with start_postgres(durable=False) as server, migrated_database(server.url, "frail"):
        site = RabbitSite(host.directory, server.url, broker, host.journal, Rows("frail"), celery=host.celery)
        environment = {"PROJ_IDEMPOTENT_TASKS": json.dumps({"SWEEPER": "off"})}
        with (
            sending_to(site),
            limited(vhost, site, 2),
            site.running("frail", "--concurrency", "2", **environment) as worker,
        ):
            server.kill()
            site.rows.close()
            task.delay(key, *more)
            eventually(lambda: worker.text().count("Its message goes back") >= 8, "eight deliveries")
            server.restart()
            site.rows.wait_for(key, State.SUCCEEDED)
            assert (site.journal.starts(key), len(site.rows.effects(key))) == (1, 1)
            site.broker.wait_until_empty()
