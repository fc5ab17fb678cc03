"""A thousand calls at once over RabbitMQ: each runs once, also where the broker refuses them at first."""

from __future__ import annotations

from collections import Counter

import pytest

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.sample.models import Effect
from tests.sample.reserving import ordering
from tests.services.rabbitmq.conftest import ENVIRONMENT, Ground
from tests.services.rabbitmq.test_refusing_broker import full
from tests.support.brokers.rabbitmq import RabbitSite
from tests.support.brokers.vhost import Vhost
from tests.support.waiting import eventually

pytestmark = [pytest.mark.process, pytest.mark.slow]

MANY = 1000
on_both = pytest.mark.parametrize("kind", [pytest.param("classic", marks=pytest.mark.long), "quorum"])


def each_runs_once(site: RabbitSite, keys: list[str]) -> None:
    rows = IdempotencyKey.objects.using(site.rows.alias)

    def are_done() -> bool:
        return rows.filter(state=State.SUCCEEDED).count() >= len(keys)

    with site.running("first", "--concurrency", "2", **ENVIRONMENT):
        eventually(are_done, "all have run", within=240)
        site.broker.wait_until_empty()
    effects = Effect.objects.using(site.rows.alias).values_list("key", flat=True)
    assert Counter(effects) == Counter(keys)


@on_both
def test_each_of_a_thousand_calls_runs_once(ground: Ground, key: str, kind: str) -> None:
    site, keys = ground(kind, "many"), [f"{key}-{number}" for number in range(MANY)]
    assert all(each.created for each in ordering.submit_many({"args": [each]} for each in keys))
    each_runs_once(site, keys)


@on_both
def test_what_the_broker_refuses_is_noticed_and_runs_once_later(
    ground: Ground, vhost: Vhost, key: str, kind: str
) -> None:
    site, keys = ground(kind, "many"), [f"{key}-{number}" for number in range(MANY)]
    with full(vhost, site):
        ordering.delay(f"{key}-before")  # which a quorum queue takes before it is full
        ordering.submit_many({"args": [each]} for each in keys)
        assert IdempotencyKey.objects.using(site.rows.alias).filter(sends=-1).count() > 0
    each_runs_once(site, [f"{key}-before", *keys])
