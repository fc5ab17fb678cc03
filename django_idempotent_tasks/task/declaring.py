"""``@idempotent(...)``: options of ours, and of Celery, for a task of ``django.tasks``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..exceptions import ConfigurationError

D = TypeVar("D")

_OPTIONS = "__idempotent_options__"

#: What the backend itself gives the task, and what Django's own decorator is for.
_TAKEN = {
    "base": "the backend gives the task its class",
    "enforce": "every enqueue is reserved",
    "bind": "a Django task gets its context with takes_context=True",
    "name": "the task is named by its module and function",
    "priority": "give it to Django's @task",
    "queue": "give queue_name to Django's @task",
    "reserve": "every enqueue is reserved",
    "sensitive": "an enqueue is stored, so pass an id instead",
    "shared": "every Celery app has the task",
}


def idempotent(**options: Any) -> Callable[[D], D]:
    """Options of a task of ``django.tasks`` with our backend: ``@idempotent(key="order")`` above ``@task``.

    The options are those of :class:`IdempotentTask`, such as ``key``, ``mode`` and ``on_duplicate``, and
    Celery's, such as ``max_retries`` and ``time_limit``. Without a ``key`` each enqueue is work of its own.
    Another backend leaves them alone. Raises :class:`ConfigurationError` for a Celery task, and for options
    that the backend decides; other wrong options are reported as for any guarded task.
    """
    for name, why in _TAKEN.items():
        if name in options:
            msg = f"@idempotent takes no {name!r}: {why}."
            raise ConfigurationError(msg)

    def decorate(declared: D) -> D:
        _declare(declared, options)
        return declared

    return decorate


def _declare(declared: Any, options: dict[str, Any]) -> None:
    function = getattr(declared, "func", declared)
    if hasattr(declared, "apply_async") or not callable(function):
        msg = f"@idempotent is for Django's @task, not for {declared!r}: its decorator takes the options."
        raise ConfigurationError(msg)
    setattr(function, _OPTIONS, {**options_of(function), **options})
    redeclare = getattr(declared.get_backend(), "redeclare", None) if function is not declared else None
    if redeclare is not None:
        redeclare(declared)


def options_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The options that ``@idempotent`` gave to a task's function."""
    return dict(getattr(function, _OPTIONS, {}))
