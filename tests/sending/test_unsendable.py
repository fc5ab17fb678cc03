"""A stored message that can never be sent becomes a dead letter and holds up no other; an outage does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery

from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.models import DeadLetter, IdempotencyKey
from django_idempotent_tasks.signals import dead_lettered
from django_idempotent_tasks.states import Category, Reason, State
from django_idempotent_tasks.sweeper.sweep import sweep_bite
from django_idempotent_tasks.testing.contract.bench import Bench
from tests.support.deliveries import ALIASES, APPS
from tests.support.failed import jobs
from tests.support.till import Counter

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


def stored(**parts: Any) -> str:
    options = {"task_id": "A", **parts.pop("options", {})}
    return json.dumps({"v": 1, "args": [7], "kwargs": {}, "options": options, **parts})


SOUND = stored()
UNSENDABLE = {
    "no JSON": "{",
    "of no version": '{"v": 99}',
    "of an unknown type": stored(args=[{"__type__": "nobody", "__value__": "x"}]),
    "for an unknown serializer": stored(options={"serializer": "carrier-pigeon"}),
    "for an unknown compression": stored(options={"compression": "carrier-pigeon"}),
    "with an odd option": stored(options={"priority": {}, "queue": ["a"]}),
    "for a queue whose name is a number": stored(options={"queue": 5}),
    "with headers that are a list": stored(options={"headers": ["a"]}),
}


@pytest.fixture(autouse=True)
def _own_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CELERY_BROKER_URL", raising=False)


@pytest.fixture
def app() -> Iterator[Celery]:
    app = Celery("unsendable", set_as_current=False, broker="memory://", backend="disabled://")
    yield app
    app.close()


@pytest.fixture
def away() -> Iterator[Celery]:
    """An app whose broker is away."""
    app = Celery("away", set_as_current=False, broker="redis://127.0.0.1:1/0", backend="disabled://")
    yield app
    app.close()


def reserve(shop: Counter, message: str) -> Call:
    identity = Identity(Bench.call(Bench()).identity.digest, "tenant", "order=7", None)
    call = Call(identity, "shop.charge", "A", message)
    assert get_store(shop.alias).reserve_new(call, wait=0, sends=-1) is not None
    return call


def sweep_for(app: Celery, shop: Counter, *, looks: int) -> int:
    """Sweep so often, each time when everything is due; how many messages were sent."""
    sent = 0
    for look in range(looks):
        with shifted(3700 * (look + 1)):
            sent += sweep_bite(app, get_store(shop.alias)).sent
    return sent


@pytest.mark.parametrize("message", UNSENDABLE.values(), ids=UNSENDABLE.keys())
def test_what_can_never_be_sent_is_given_up_after_some_looks(
    app: Celery, shop: Counter, message: str
) -> None:
    heard: list[Any] = []

    def hear(call: Call, failure: Any, **_: object) -> None:
        heard.append((call.identity.key_text, call.identity.scope, failure.signature))

    dead_lettered.connect(hear)
    try:
        reserve(shop, message)
        sweep_for(app, shop, looks=5)
        assert (shop.state, jobs(shop)) == (State.PENDING, [])
        sweep_for(app, shop, looks=8)
    finally:
        dead_lettered.disconnect(hear)
    row = shop.row
    assert (row.state, row.reason, row.category) == (State.FAILED, Reason.PERMANENT, Category.FATAL)
    assert row.message == message
    (job,) = jobs(shop)
    assert job.state == State.FAILED
    assert heard == [("order=7", "tenant", row.signature)]
    assert DeadLetter.objects.using(shop.alias).count() == 1


def test_it_holds_up_no_other(app: Celery, shop: Counter) -> None:
    for message in (*UNSENDABLE.values(), SOUND):
        reserve(shop, message)
    assert sweep_for(app, shop, looks=1) == 1


def test_what_is_sent_in_vain_is_sent_for_as_long_as_it_takes(app: Celery, shop: Counter) -> None:
    reserve(shop, SOUND)
    assert sweep_for(app, shop, looks=20) >= 15
    assert shop.state is State.PENDING


def test_a_broker_that_is_away_gives_nothing_up(away: Celery, shop: Counter) -> None:
    reserve(shop, SOUND)
    sweep_for(away, shop, looks=20)
    assert (shop.state, shop.row.sends) == (State.PENDING, -1)
    assert IdempotencyKey.objects.using(shop.alias).count() == 1
