"""Turns the body of a webhook into a checked event, or says why it is refused."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

STATUSES = ("pending", "failed", "completed", "refunded")
TYPES = {f"payment.{status}": status for status in STATUSES}

# Identifiers become keys, columns and log lines, so control characters and lone surrogates stay out.
IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}")
AMOUNT = re.compile(r"[0-9]{1,10}\.[0-9]{2}")
CURRENCY = re.compile(r"[A-Z]{3}")
LATEST = 2**33


class MalformedEvent(ValueError):
    """The body is not an event. The message names the field and is safe to send back."""


@dataclass(frozen=True, slots=True)
class PaymentEvent:
    """One event about one payment, as far as this project needs it."""

    event_id: str
    payment_id: str
    order_id: str
    amount: Decimal
    currency: str
    status: str
    created: int = 0


def parse_event(body: bytes) -> PaymentEvent:
    """Return the event in ``body``. Raises :class:`MalformedEvent` with the reason, and nothing else."""
    event = _mapping(_json(body), "the body")
    kind = event.get("type")
    if not isinstance(kind, str) or kind not in TYPES:
        raise MalformedEvent(f"type must be one of {', '.join(TYPES)}")
    created = _timestamp(event)
    data = _mapping(event.get("data"), "data")
    if data.get("status") != TYPES[kind]:
        raise MalformedEvent("data.status must agree with type")
    return PaymentEvent(
        event_id=_matching(event, "id", IDENTIFIER),
        payment_id=_matching(data, "payment_id", IDENTIFIER),
        order_id=_matching(data, "order_id", IDENTIFIER),
        amount=_amount(data),
        currency=_matching(data, "currency", CURRENCY),
        status=TYPES[kind],
        created=created,
    )


def _json(body: bytes) -> object:
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise MalformedEvent("the body is not JSON in UTF-8") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _mapping(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MalformedEvent(f"{name} must be an object")
    return value


def _timestamp(event: dict[str, Any]) -> int:
    created = event.get("created")
    if type(created) is not int or not 0 <= created < LATEST:
        raise MalformedEvent("created must be a Unix time in seconds")
    return int(created)


def _matching(source: dict[str, Any], name: str, pattern: re.Pattern[str]) -> str:
    value = source.get(name)
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise MalformedEvent(f"{name} is missing or has a wrong form")
    return value


def _amount(data: dict[str, Any]) -> Decimal:
    # Text, as providers send it: a JSON number would pass through binary floats on the way.
    amount = Decimal(_matching(data, "amount", AMOUNT))
    if not amount:
        raise MalformedEvent("amount must not be zero")
    return amount
