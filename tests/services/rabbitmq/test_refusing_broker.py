"""A broker that takes no message: what was to be acknowledged because of it is not, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from django_idempotent_tasks.states import State
from tests.sample import atomic, death
from tests.sample.reserving import ordering
from tests.services.rabbitmq.conftest import ENVIRONMENT, Ground
from tests.support.brokers.rabbitmq import RabbitSite
from tests.support.brokers.vhost import Closings, Vhost
from tests.support.waiting import eventually

pytestmark = [pytest.mark.process, pytest.mark.slow]

#: A quorum queue takes a message above its limit where none waits, so it does not refuse the first one.
on_classic = pytest.mark.parametrize("kind", ["classic"])
on_both = pytest.mark.parametrize("kind", [pytest.param("classic", marks=pytest.mark.long), "quorum"])


@contextmanager
def full(vhost: Vhost, site: RabbitSite) -> Iterator[None]:
    """Let the queue refuse every message; those that go back to it are no new ones."""
    with vhost.policy(site.broker.prefix, **{"max-length": 0, "overflow": "reject-publish"}):
        yield


@on_classic
def test_a_delivery_whose_copy_is_refused_is_not_acknowledged(
    ground: Ground, vhost: Vhost, key: str, kind: str
) -> None:
    """Of an atomic run nothing else is left when its worker dies."""
    site = ground(kind, "refused")
    with site.running("first", "--concurrency", "2", **ENVIRONMENT) as first:
        atomic.acting.delay(key, ["written: wait"])
        eventually((site.directory / f"{key}.1.visited").exists, "the body waits")
        with full(vhost, site):
            closings = Closings(vhost)
            closings.go_on("connections")
            closings.end()
            first.wait_for_log("not rescheduled")
        first.kill()
    assert site.rows.find(key) is None

    with site.running("second", **ENVIRONMENT):
        site.rows.wait_for(key, State.SUCCEEDED)
        assert len(site.rows.effects(key)) == 1
        site.broker.wait_until_empty()


@on_classic
def test_a_retry_that_is_stored_nowhere_and_is_refused_keeps_its_delivery(
    ground: Ground, vhost: Vhost, key: str, kind: str
) -> None:
    site = ground(kind, "refused")
    with site.running("first", **ENVIRONMENT) as first:
        death.secretive.delay(key, ["retry after the gate"])
        site.journal.started(key)
        with full(vhost, site):
            site.journal.open(f"{key}.1")
            first.wait_for_log("its retry was not sent")
        row = site.rows.wait_for(key, State.SUCCEEDED)
        assert (row.attempts, len(site.rows.effects(key))) == (2, 1)


@on_both
def test_a_reserved_call_that_is_refused_is_sent_later(
    ground: Ground, vhost: Vhost, key: str, kind: str
) -> None:
    """A quorum queue begins to refuse a little after it is full."""
    site, keys = ground(kind, "refused"), (f"{key}-{number}" for number in range(1000))
    with full(vhost, site):
        sent = [next(keys)]
        ordering.delay(sent[0])
        while site.rows.row(sent[-1]).sends == 0:
            sent.append(next(keys))
            ordering.delay(sent[-1])
        refused = site.rows.row(sent[-1])
        assert (refused.state, refused.sends) == (State.PENDING, -1)
    with site.running("first", **ENVIRONMENT):
        for each in sent:
            site.rows.wait_for(each, State.SUCCEEDED)
    assert [site.journal.starts(each) for each in sent] == [1] * len(sent)
    assert [len(site.rows.effects(each)) for each in sent] == [1] * len(sent)


@on_both
def test_a_reserved_call_whose_queue_was_deleted_behind_a_kept_connection_is_sent_again(
    ground: Ground, key: str, kind: str
) -> None:
    site = ground(kind, "refused")
    ordering.delay(f"{key}-before")  # which declares the queue, on a connection that is kept
    site.broker.clear()
    ordering.delay(key)
    with site.running("first", **ENVIRONMENT):
        for each in (f"{key}-before", key):
            site.rows.wait_for(each, State.SUCCEEDED)
            assert len(site.rows.effects(each)) == 1
