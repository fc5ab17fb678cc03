"""A payment provider that honours idempotency keys."""

from __future__ import annotations

from dataclasses import dataclass


class Timeout(Exception):
    """It did not answer in time."""


class CardDeclined(Exception):
    """It said no."""


class Unavailable(Exception):
    """It said 503; ``response`` says when to come back."""

    def __init__(self, response: object = None) -> None:
        super().__init__("503")
        self.response = response


@dataclass(frozen=True)
class Paid:
    """Its answer."""

    reference: str


#: Its answers by idempotency key.
_ANSWERED: dict[str, Paid] = {}


def charge(order_id: int, amount: str, *, idempotency_key: str) -> Paid:  # noqa: ARG001
    """Charge once for each key."""
    return _ANSWERED.setdefault(idempotency_key, Paid(f"ch_{order_id}"))


def refund(order_id: int, cents: int, *, idempotency_key: str) -> Paid:  # noqa: ARG001
    """Pay back once for each key."""
    return _ANSWERED.setdefault(idempotency_key, Paid(f"re_{order_id}"))
