"""The demonstration's traffic is what it claims to be, and the webhook answers it as planned."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from django.test import Client

from example_project.demo.traffic import ACCEPTED, OUTAGES, OVERSIZED_AMOUNT, Delivery, plan
from example_project.gateway.store import OUTAGE_AMOUNT, UNREADABLE_AMOUNT
from example_project.payments import views
from example_project.payments.models import Tenant
from tests.example.test_webhook import Recorder

SECRETS = {"acme": "a" * 64, "delta": "d" * 64}
PLAN = plan(SECRETS, 300, random.Random(7))
EVENTS = [delivery for delivery in PLAN.deliveries if delivery.event]


def test_a_third_of_the_events_is_repeated() -> None:
    times = Counter(delivery.event["id"] for delivery in EVENTS)

    assert len(EVENTS) == 300
    assert PLAN.distinct == len(times) == 200
    assert max(times.values()) == 2


def test_some_repetitions_follow_at_once_and_some_later() -> None:
    places: dict[str, list[int]] = {}
    for place, delivery in enumerate(PLAN.deliveries):
        if delivery.event:
            places.setdefault(delivery.event["id"], []).append(place)
    gaps = [place[1] - place[0] for place in places.values() if len(place) > 1]

    assert sum(gap == 1 for gap in gaps) >= 40
    assert sum(gap > 1 for gap in gaps) >= 40


def test_some_events_come_out_of_order() -> None:
    first: dict[str, str] = {}
    for delivery in EVENTS:
        first.setdefault(delivery.event["data"]["payment_id"], delivery.event["data"]["status"])

    assert len(set(first.values())) == 3


def test_what_will_fail_is_sent_apart_from_the_others() -> None:
    amounts = [delivery.event["data"]["amount"] for delivery in PLAN.apart]
    ids = {delivery.event["id"] for delivery in PLAN.apart}

    assert amounts == [UNREADABLE_AMOUNT, *[OUTAGE_AMOUNT] * OUTAGES, *[OVERSIZED_AMOUNT] * 2]
    assert len(ids) == len(PLAN.apart)
    assert ids.isdisjoint({delivery.event["id"] for delivery in EVENTS} | PLAN.charges)


def test_the_poison_is_sent_apart_from_the_others() -> None:
    event = PLAN.poison.event

    assert (event["type"], event["data"]["amount"]) == ("payment.completed", UNREADABLE_AMOUNT)
    assert event["id"] not in {delivery.event["id"] for delivery in EVENTS} | PLAN.charges


def test_the_same_seed_gives_the_same_traffic_but_for_the_ids() -> None:
    def shape(seed: int) -> list[tuple[str, int, object]]:
        deliveries = plan(SECRETS, 60, random.Random(seed)).deliveries
        return [(one.tenant, one.expected, one.event.get("type")) for one in deliveries]

    assert shape(1) == shape(1) != shape(2)


@pytest.mark.django_db
@pytest.mark.urls("example_project.urls")
def test_the_webhook_answers_as_planned(monkeypatch: pytest.MonkeyPatch, settings: object) -> None:
    settings.WEBHOOK_MAX_BYTES = 64 * 1024  # type: ignore[attr-defined]
    monkeypatch.setattr(views, "handle_event", recorder := Recorder())
    Tenant.objects.bulk_create(Tenant(slug=slug, name=slug, secret=key) for slug, key in SECRETS.items())

    short = plan(SECRETS, 30, random.Random(7))
    surprises = [
        (one.body[:80], one.expected, code)
        for one in (*short.deliveries, *short.apart)
        if (code := post(one)) != one.expected
    ]

    assert surprises == []
    assert len(recorder.sent) == len(short.apart) + sum(one.expected == ACCEPTED for one in short.deliveries)


def post(delivery: Delivery) -> int:
    return (
        Client()
        .post(
            f"/webhooks/{delivery.tenant}/",
            delivery.body,
            content_type="application/json",
            headers={"X-Webhook-Signature": delivery.signature},
        )
        .status_code
    )
