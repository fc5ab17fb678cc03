"""One delivery of a guarded task, top to bottom: identify, claim, then run, replay, refuse or reschedule."""

from __future__ import annotations

from typing import Any

from ..conf.options import Policy
from .atomic import AtomicDelivery
from .leased import LeasedDelivery
from .shadow import observe


def run(task: Any, request: Any, policy: Policy, args: Any, kwargs: Any) -> Any:
    """Run one delivery; returns its result or raises what Celery has to see."""
    if not policy.enforce:
        return observe(task, request, policy, args, kwargs)
    kind = AtomicDelivery if policy.mode == "atomic" else LeasedDelivery
    return kind(task, request, policy, args, kwargs).perform()
