"""What it costs to compute the identity of a call, which happens once, where the call is made."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from timeit import Timer
from typing import Any

from django_idempotent_tasks.identity.arguments import Binder
from django_idempotent_tasks.identity.key import identify
from django_idempotent_tasks.identity.rules import KeyRules

REPEATS = 5


@dataclass(frozen=True)
class Size:
    """A size of arguments, and the microseconds that are aimed at (None: only reported)."""

    label: str
    records: int
    goal: float | None


SIZES = (Size("small", 0, 10.0), Size("8 KB", 86, 1000.0), Size("0.94 MB", 9700, None))


def charge(order_id: int, amount: str, records: object = None) -> None:
    """Stand for a task: only its parameters count."""


def identity_costs() -> dict[str, tuple[int, float]]:
    """For each size: the characters of the arguments as JSON, and the best microseconds of some tries."""
    rules = KeyRules(binder=Binder(charge, skip_first=False))
    costs = {}
    for size in SIZES:
        arguments = arguments_of(size.records)
        call = partial(identify, "shop.tasks.charge", rules, (), arguments, task_id="0" * 36)
        timer = Timer(call)
        loops = max(1, 2000 // (size.records + 1))
        best = min(timer.repeat(REPEATS, loops)) / loops
        costs[size.label] = (len(json.dumps(arguments)), best * 1e6)
    return costs


def arguments_of(records: int) -> dict[str, Any]:
    """The arguments of a call with so many records of some 97 characters."""
    usual = {"amount": "9.90", "paid": True, "tags": ["a", "b", "c"]}
    rows = [{"id": number, "name": f"Customer {number:05d}", **usual} for number in range(records)]
    return {"order_id": 7, "amount": "9.90", **({"records": rows} if rows else {})}
