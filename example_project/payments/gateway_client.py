"""Talks to the payment gateway, with a timeout and an Idempotency-Key on every charge."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

DEFAULT_URL = "http://127.0.0.1:8900"
DEFAULT_TIMEOUT = 5.0


class GatewayUnavailable(Exception):
    """No usable answer: it may have charged or not. Trying again with the same key is safe.

    ``retry_after`` is the gateway's own word on when, which the retry of a guarded task honours.
    """

    def __init__(self, reason: str, retry_after: str | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class GatewayRefused(Exception):
    """The gateway will never accept this request as it is."""


class CardDeclined(Exception):
    """The customer's bank said no."""


@dataclass(frozen=True, slots=True)
class Charged:
    """The gateway's reference, and whether the money has moved: "completed", or "pending" for a debit."""

    reference: str
    status: str


def charge(*, reference: str, amount: str, currency: str, idempotency_key: str) -> str:
    """Charge once for ``idempotency_key``, however often it is called, and return the gateway's reference."""
    order = {"reference": reference, "amount": amount, "currency": currency}
    return ask_for_charge(order, idempotency_key).reference


def ask_for_charge(order: Mapping[str, str], idempotency_key: str) -> Charged:
    """Charge once for ``idempotency_key``; asked again, the gateway says how far that charge has come.

    Raises :class:`CardDeclined`, :class:`GatewayRefused` or :class:`GatewayUnavailable`.
    """
    body = json.dumps(dict(order))
    status, answer, retry_after = _ask("POST", "/charges", body, {"Idempotency-Key": idempotency_key})
    if status == HTTPStatus.CREATED:
        return Charged(str(answer["id"]), str(answer["status"]))
    reason = f"{status}: {answer.get('error', '')}"
    if status == HTTPStatus.PAYMENT_REQUIRED:
        raise CardDeclined(reason)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.CONFLICT,
        HTTPStatus.TOO_MANY_REQUESTS,
    }:
        raise GatewayUnavailable(reason, retry_after)
    raise GatewayRefused(reason)


def charges(tenant: str) -> set[str]:
    """Return the gateway's references of all charges of a tenant."""
    status, answer, retry_after = _ask("GET", "/charges")
    if status != HTTPStatus.OK:
        raise GatewayUnavailable(str(status), retry_after)
    return {charge["id"] for charge in answer["charges"] if charge["reference"].startswith(f"{tenant}/")}


def _ask(
    method: str, path: str, body: str | None = None, headers: Mapping[str, str] = MappingProxyType({})
) -> tuple[int, dict[str, Any], str | None]:
    address = urlsplit(getattr(settings, "GATEWAY_URL", DEFAULT_URL))
    connect = HTTPSConnection if address.scheme == "https" else HTTPConnection
    connection = connect(address.netloc, timeout=getattr(settings, "GATEWAY_TIMEOUT", DEFAULT_TIMEOUT))
    try:
        url = address.path.rstrip("/") + path
        connection.request(method, url, body, {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        retry_after = response.headers.get("Retry-After")
        return response.status, dict(json.loads(response.read())), retry_after
    except (OSError, HTTPException, ValueError) as error:
        # ValueError: something between us and the gateway answered, not in JSON.
        message = f"{type(error).__name__}: {error}"
        raise GatewayUnavailable(message) from error
    finally:
        connection.close()
