"""Talks to the badge printer, with a timeout and an Idempotency-Key on every job."""

from __future__ import annotations

import json
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from django.conf import settings

DEFAULT_URL = "http://127.0.0.1:8901"
DEFAULT_TIMEOUT = 5.0


class PrinterUnavailable(Exception):
    """No usable answer: it may have printed or not. Trying again with the same key is safe."""


def print_badge(*, badge: str, text: str, idempotency_key: str) -> int:
    """Print one sheet for ``idempotency_key``, however often it is called, and return the sheet's number."""
    address = urlsplit(getattr(settings, "PRINTER_URL", DEFAULT_URL))
    timeout = getattr(settings, "PRINTER_TIMEOUT", DEFAULT_TIMEOUT)
    connection = HTTPConnection(address.netloc, timeout=timeout)
    headers = {"Content-Type": "application/json", "Idempotency-Key": idempotency_key}
    try:
        connection.request("POST", "/badges", json.dumps({"badge": badge, "text": text}), headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status != HTTPStatus.CREATED:
            raise PrinterUnavailable(f"{response.status}: {answer.get('error', '')}")
        return int(answer["sheet"])
    except (OSError, HTTPException, ValueError) as error:
        raise PrinterUnavailable(f"{type(error).__name__}: {error}") from error
    finally:
        connection.close()
