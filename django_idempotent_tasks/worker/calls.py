"""Reads, in a worker's parent, which call a message asks for and whether its task is atomic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..ledger.values import Call
from ..messages.header import carried
from ..messages.message import stored_text


def named_call(task: Any, message: Any, task_id: str, args: Any, kwargs: Any) -> Call | None:
    """The call of a message; None where the message names no key: no child can have claimed one either."""
    own = carried(message, task_name=task.name, task_id=task_id)
    if own is not None:
        return Call(own.identity, own.task, task_id, None)
    try:
        identity = task.idempotency_identity(args, kwargs, task_id=task_id)
    except Exception:  # noqa: BLE001  hostile arguments; a key function may raise anything
        return None
    return Call(identity, task.name, task_id, None, named_here=True)


def with_message(task: Any, call: Call, context: Any) -> Call:
    """The call with the message of its request, which a record of a killed run stores."""
    return replace(call, message=stored_text(task, context))


def is_atomic(task: Any) -> bool:
    """Whether the task's calls run in one transaction with their row; in shadow mode none does."""
    return bool(task.idempotency_policy.mode == "atomic") and is_enforced(task)


def is_enforced(task: Any) -> bool:
    """Whether the task is not in shadow mode, where nothing is stored that could be sent again."""
    return bool(task.idempotency_policy.enforce)
