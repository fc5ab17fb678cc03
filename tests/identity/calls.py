"""Calls whose keys the tests compare."""

from __future__ import annotations

from typing import Any

from django_idempotent_tasks.identity.arguments import Binder
from django_idempotent_tasks.identity.key import Identity, identify
from django_idempotent_tasks.identity.rules import KeyRules


def charge(order_id: Any, amount: Any = "9.90", *, currency: Any = "EUR") -> None: ...


def open_ended(a: Any = None, *rest: Any, **extra: Any) -> None: ...


def sweep() -> None: ...


def identity(function: Any = charge, args: Any = (), kwargs: Any = None, **options: Any) -> Identity:
    """Identify a call; ``call`` holds what is given per call, the other options are the task's."""
    task, task_id = options.pop("task", "shop.charge"), options.pop("task_id", "id-1")
    call = options.pop("call", {})
    rules = KeyRules(binder=Binder(function, skip_first=False), **options)
    return identify(task, rules, args, kwargs or {}, task_id=task_id, **call)
