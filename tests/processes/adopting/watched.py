"""One task twice, with the guard and in shadow mode, to give both the same messages."""

from __future__ import annotations

from typing import Any

from django_idempotent_tasks import IdempotentTask
from tests.sample.celery import app
from tests.sample.tasks import begin, guarded, journal

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


def wait(self: Any, key: str) -> str:
    """Begin, and wait at the gate until somebody opens it, or ends the process."""
    begin(self, key)
    journal().visit(key)
    journal().write("ended", key)
    return key


def mortal(name: str, **options: Any) -> Any:
    """A task in shadow mode whose project lets the broker keep the messages of dead children."""
    kept = {"acks_late": True, "reject_on_worker_lost": True}
    return guarded(name=f"shop.{name}", enforce=False, **{**kept, **options})(wait)


lasting = mortal("lasting", lease=60)
lasting_atomic = mortal("lasting_atomic", mode="atomic", lease=60)
fleeting = mortal("fleeting", acks_late=False, lease=60)
