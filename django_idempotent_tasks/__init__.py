"""Celery tasks for Django whose effects happen once, whose work is never lost, whose failures can be seen.

The names below load on first use, so that a project's ``celery.py`` may import this package before
``django.setup()``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .exceptions import (
        ConfigurationError,
        DuplicateTask,
        IdempotencyError,
        InvalidKey,
        KeyReused,
        LeaseLost,
        ManualReview,
        OuterTransaction,
        PermanentError,
        PoisonTask,
        RecordedError,
        RecordsLeft,
        ResultNotStored,
        StoreDown,
        TaskExit,
        TaskMemoryError,
        TransactionLeftOpen,
        TransientError,
    )
    from .identity.rules import TASK_ID
    from .operations.batches import Batch, get_batch, submit_batch
    from .operations.filing import dead_letter
    from .operations.lookup import get_key
    from .running.context import current
    from .sending.submission import Submission
    from .states import Category
    from .task.declaring import idempotent
    from .task.mixin import IdempotentTask, IdempotentTaskMixin

__all__ = [
    "TASK_ID",
    "Batch",
    "Category",
    "ConfigurationError",
    "DuplicateTask",
    "IdempotencyError",
    "IdempotentTask",
    "IdempotentTaskMixin",
    "InvalidKey",
    "KeyReused",
    "LeaseLost",
    "ManualReview",
    "OuterTransaction",
    "PermanentError",
    "PoisonTask",
    "RecordedError",
    "RecordsLeft",
    "ResultNotStored",
    "StoreDown",
    "Submission",
    "TaskExit",
    "TaskMemoryError",
    "TransactionLeftOpen",
    "TransientError",
    "current",
    "dead_letter",
    "get_batch",
    "get_key",
    "idempotent",
    "submit_batch",
]

_HOMES = {
    "TASK_ID": "identity.rules",
    "Batch": "operations.batches",
    "Category": "states",
    "IdempotentTask": "task.mixin",
    "IdempotentTaskMixin": "task.mixin",
    "Submission": "sending.submission",
    "current": "running.context",
    "dead_letter": "operations.filing",
    "get_batch": "operations.batches",
    "get_key": "operations.lookup",
    "idempotent": "task.declaring",
    "submit_batch": "operations.batches",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(f".{_HOMES.get(name, 'exceptions')}", __name__), name)
    globals()[name] = value
    return value
