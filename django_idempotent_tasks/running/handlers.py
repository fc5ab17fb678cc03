"""Calls a task's ``before_start``, ``on_success`` and the like only for deliveries that run its body."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from celery import Task
from celery.utils.objects import mro_lookup

BEFORE = "before_start"
#: The hooks that Celery calls after the end; we skip them for a call that was answered without its body.
AFTER = ("on_success", "on_failure", "on_retry", "after_return")

_ANSWERED, _STARTING = "idempotency_answered", "idempotency_starting"
#: What both are set to: no value of a header, so that no copy of the message carries them on.
_MARK = object()


def mark_answered(request: Any) -> None:
    """Note that this delivery is answered with the outcome of another one."""
    vars(request)[_ANSWERED] = _MARK


def wrap_hooks(kind: type) -> None:
    """Wrap the hooks that a task's classes define, so that they are called only where the body is run."""
    for name in (BEFORE, *AFTER):
        found = mro_lookup(kind, name, stop={Task, object}, monkey_patched=[Task.__module__])
        if found is not None and not hasattr(vars(found)[name], "idempotent_hook"):
            around = _before if name == BEFORE else _after
            hook = around(_resolved(kind, name))
            hook.idempotent_hook = True  # type: ignore[attr-defined]
            setattr(kind, name, hook)


def _resolved(kind: type, name: str) -> Callable[..., Any]:
    """The hook as this class resolves it when it is called, also where a base wraps its own later."""
    own = vars(kind).get(name)

    @wraps(getattr(kind, name))
    def hook(task: Any, *args: Any, **kwargs: Any) -> Any:
        if own is None:
            return getattr(super(kind, task), name)(*args, **kwargs)
        # An object that is called has none, nor a partial() before Python 3.13.
        found = own.__get__(task, type(task)) if hasattr(own, "__get__") else own
        return found(*args, **kwargs)

    return hook


def _after(hook: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(hook)
    def asked(task: Any, *args: Any, **kwargs: Any) -> Any:
        return None if vars(task.request).get(_ANSWERED) is _MARK else hook(task, *args, **kwargs)

    return asked


def _before(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Skip Celery's call, which comes before the claim; :func:`start` calls the hook after it."""

    @wraps(hook)
    def asked(task: Any, *args: Any, **kwargs: Any) -> Any:
        request = task.request
        is_its_time = request.called_directly or vars(request).get(_STARTING) is _MARK
        return hook(task, *args, **kwargs) if is_its_time else None

    return asked


def start(task: Any, args: Any, kwargs: Any) -> None:
    """Call a task's ``before_start``, now that its claim is granted."""
    if not hasattr(type(task).before_start, "idempotent_hook"):
        return
    request = vars(task.request)
    request[_STARTING] = _MARK
    try:
        task.before_start(task.request.id, args, kwargs)
    finally:
        del request[_STARTING]
