"""A gateway client with a fault: one answer ends its process, as a crash in a C library does.

Only the demonstration's workers import it; the project's own code is as it is everywhere.
"""

from __future__ import annotations

import os
import signal

from example_project.gateway.store import UNREADABLE_AMOUNT
from example_project.payments import gateway_client

_charge = gateway_client.charge


def charge(*, reference: str, amount: str, currency: str, idempotency_key: str) -> str:
    """Charge, and die of whatever is answered to the unreadable amount."""
    try:
        return _charge(reference=reference, amount=amount, currency=currency, idempotency_key=idempotency_key)
    finally:
        if amount == UNREADABLE_AMOUNT:
            os.kill(os.getpid(), signal.SIGKILL)


gateway_client.charge = charge
