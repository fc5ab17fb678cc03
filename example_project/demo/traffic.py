"""Makes up the webhooks of a run: repeated, out of order, and some that must be refused."""

from __future__ import annotations

import json
import random
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from example_project.gateway.store import DECLINED_AMOUNT, OUTAGE_AMOUNT, UNREADABLE_AMOUNT
from example_project.payments.signatures import sign

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ACCEPTED = 202

#: Events whose bank is down.
OUTAGES = 3

#: An amount that is too large to be charged without a person.
OVERSIZED_AMOUNT = "19900.00"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One POST to the webhook, and how it must be answered. ``event`` is empty where it must be refused."""

    tenant: str
    body: bytes
    signature: str
    expected: int
    event: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """All POSTs of a run, in order, and apart from them the one that ends whoever handles it.

    Also apart are those of the ``outage``, whose bank is down for longer than their retries last, and the
    ``oversized``, which wait for a person.
    """

    deliveries: tuple[Delivery, ...]
    distinct: int
    poison: Delivery
    outage: tuple[Delivery, ...]
    oversized: tuple[Delivery, ...]

    @property
    def apart(self) -> tuple[Delivery, ...]:
        """What is sent at the beginning."""
        return (self.poison, *self.outage, *self.oversized)

    @property
    def charges(self) -> frozenset[str]:
        """The ids of the events that call the gateway."""
        events = (delivery.event for delivery in self.deliveries if delivery.event)
        return frozenset(event["id"] for event in events if event["type"] == "payment.completed")


def plan(secrets: Mapping[str, str], count: int, rng: random.Random) -> Plan:
    """Plan ``count`` events for the tenants in ``secrets``, a third of them repeated, plus malformed ones."""
    events = _events(sorted(secrets), rng)
    distinct = [_delivery(secrets, *next(events)) for _ in range(count - count // 3)]
    repeated = rng.sample(distinct, count // 3)
    # Half of the repetitions follow at once, so that two requests race; the others come at any time.
    at_once = set(map(id, repeated[::2]))
    order = [
        copy for one in rng.sample(distinct, len(distinct)) for copy in [one] * (1 + (id(one) in at_once))
    ]
    malformed = _malformed(secrets, rng.choice(distinct))
    for extra in (*repeated[1::2], *malformed):
        order.insert(rng.randrange(len(order) + 1), extra)
    return Plan(
        tuple(order),
        len(distinct),
        _apart(secrets, rng, UNREADABLE_AMOUNT),
        tuple(_apart(secrets, rng, OUTAGE_AMOUNT) for _ in range(OUTAGES)),
        tuple(_apart(secrets, rng, OVERSIZED_AMOUNT) for _ in range(2)),
    )


def _events(tenants: list[str], rng: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the life of one payment after the other: pending, completed, and every fourth refunded."""
    number = 0
    while True:
        number += 1
        declined = number % 25 == 0
        tenant, data = rng.choice(tenants), _payment(number, rng)
        if declined:
            data["amount"] = DECLINED_AMOUNT
        refunded = number % 4 == 0 and not declined
        for status in ("pending", "completed", *["refunded"] * refunded):
            yield tenant, _event({**data, "status": status})


def _apart(secrets: Mapping[str, str], rng: random.Random, amount: str) -> Delivery:
    data = {**_payment(0, rng), "amount": amount, "status": "completed"}
    return _delivery(secrets, rng.choice(sorted(secrets)), _event(data))


def _payment(number: int, rng: random.Random) -> dict[str, str]:
    return {
        "payment_id": f"pay_{uuid.uuid4().hex[:16]}",
        "order_id": f"order-{1000 + number}",
        "amount": f"{rng.randint(1, 300)}.{rng.randint(0, 99):02}",
        "currency": rng.choice(("EUR", "USD", "GBP")),
    }


def _event(data: Mapping[str, str]) -> dict[str, Any]:
    return {
        "id": f"evt_{uuid.uuid4().hex[:20]}",
        "type": f"payment.{data['status']}",
        "created": int(time.time()),
        "data": data,
    }


def _delivery(secrets: Mapping[str, str], tenant: str, event: Mapping[str, Any]) -> Delivery:
    body = json.dumps(event).encode()
    return Delivery(tenant, body, sign(secrets[tenant], body), ACCEPTED, event)


def _malformed(secrets: Mapping[str, str], sample: Delivery) -> list[Delivery]:
    tenant, event = sample.tenant, dict(sample.event)
    data = event["data"]
    refused = [
        b"",
        sample.body[:-20],
        b"\xff\xfe",
        b"[" * 20_000,
        b"[]",
        _without(event, "id"),
        _with(event, id=17),
        _with(event, type="payment.exploded"),
        _with(event, created="today"),
        _with(event, data=None),
        _with(event, data={**data, "amount": 19.9}),
        _with(event, data={**data, "currency": "euro"}),
        _with(event, data={**data, "payment_id": "pay\u0000"}),
    ]
    signed = [Delivery(tenant, body, sign(secrets[tenant], body), 400, {}) for body in refused]
    wrong_signature = Delivery(tenant, sample.body, sign("guessed", sample.body), 401, {})
    wrong_tenant = Delivery("nobody", sample.body, sample.signature, 401, {})
    return [*signed, wrong_signature, wrong_tenant]


def _without(event: Mapping[str, Any], name: str) -> bytes:
    return json.dumps({key: value for key, value in event.items() if key != name}).encode()


def _with(event: Mapping[str, Any], **changed: object) -> bytes:
    return json.dumps({**event, **changed}).encode()
