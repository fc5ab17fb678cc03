"""A carrier without idempotency keys: who orders a pick-up twice is visited twice."""

from __future__ import annotations


class Refused(Exception):
    """It took no order."""


def order_pick_up(order_id: int) -> None:
    """Order one."""
