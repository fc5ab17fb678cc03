"""Which call a message is of, and how that runs, as a worker's parent reads it."""

from __future__ import annotations

from typing import Any

from ..ledger.values import Call
from ..messages.header import carried


def named_call(task: Any, message: Any, task_id: str, args: Any, kwargs: Any) -> Call | None:
    """The call of a message; None for one that names no key, which no child can have claimed either."""
    own = carried(message, task_name=task.name, task_id=task_id)
    if own is not None:
        return Call(own.identity, task.name, task_id, None)
    try:
        identity = task.idempotency_identity(args, kwargs, task_id=task_id)
    except Exception:  # noqa: BLE001  hostile arguments; a key function may raise anything
        return None
    return Call(identity, task.name, task_id, None, named_here=True)


def is_atomic(task: Any) -> bool:
    """Whether the task's calls run in one transaction with their row."""
    return bool(task.idempotency_policy.mode == "atomic")
