"""What one enqueue asks for, in the message header ``django_task``: priority, queue, time, backend."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils import timezone

from .framework import TASK_MAX_PRIORITY, TASK_MIN_PRIORITY, Task

HEADER = "django_task"

#: What Django calls the queue of tasks that name none: where Celery's own routing sends a call.
ANY_QUEUE = "default"

#: Celery's priorities, 0 to 9, as brokers keep them.
HIGHEST = 9

#: Transports that take the message with the lowest number first.
_LOWEST_FIRST = ("redis", "rediss", "sentinel", "valkey", "valkeys")


def options_of(task: Task[..., Any], app: Any) -> dict[str, Any]:
    """The options of ``apply_async`` for what a Django task asks for."""
    when = task.run_after
    if when is not None and timezone.is_naive(when):
        when = timezone.make_aware(when)  # USE_TZ = False: the project's own time zone
    options = {
        "priority": priority_for(task.priority, app),
        "eta": when,
        "headers": {HEADER: _header(task)},
    }
    return options if task.queue_name == ANY_QUEUE else {**options, "queue": task.queue_name}


def priority_for(priority: int, app: Any) -> int:
    """A priority of Django, -100 to 100, as the broker's: the most urgent is 9, and 0 on Redis."""
    share = (priority - TASK_MIN_PRIORITY) / (TASK_MAX_PRIORITY - TASK_MIN_PRIORITY)
    scheme = str(app.conf.broker_write_url or app.conf.broker_url or "").partition(":")[0].partition("+")[0]
    return round(HIGHEST * (1 - share if scheme in _LOWEST_FIRST else share))


def asked(task: Task[..., Any], header: Any) -> Task[..., Any]:
    """The task as one enqueue asked for it; as it was declared where its backend no longer allows that."""
    if not isinstance(header, dict):
        return task
    when = header.get("run_after")
    try:
        return task.using(
            priority=header.get("priority"),
            queue_name=header.get("queue_name"),
            run_after=None if when is None else datetime.fromisoformat(when),
            backend=header.get("backend"),
        )
    except Exception:  # noqa: BLE001  a backend may refuse a task in any way
        return task


def _header(task: Task[..., Any]) -> dict[str, Any]:
    when = None if task.run_after is None else task.run_after.isoformat()
    names = ("priority", "queue_name", "backend")
    return {**{name: getattr(task, name) for name in names}, "run_after": when}
