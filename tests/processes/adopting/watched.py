"""One task twice, with the guard and in shadow mode, to give both the same messages."""

from __future__ import annotations

from typing import Any

from django_idempotent_tasks import IdempotentTask
from tests.sample.celery import app
from tests.sample.tasks import journal

OPTIONS: dict[str, Any] = {
    "base": IdempotentTask,
    "bind": True,
    "key": "order",
    "autoretry_for": (ConnectionError,),
    "retry_backoff": False,
    "default_retry_delay": 0,
}


def sell(self: Any, order: str) -> str:
    """Sell an order; its name says what comes between: one error that is retried, or a gate."""
    journal().write(self.name, order, task_id=self.request.id, token=self.idempotency.token)
    if order.endswith("retried") and self.request.retries == 0:
        raise ConnectionError
    if order.endswith("gated"):
        journal().visit(order)
    return order


task: Any = app.task
enforced = task(name="shop.enforced", **OPTIONS)(sell)
shadowed = task(name="shop.shadowed", enforce=False, **OPTIONS)(sell)
