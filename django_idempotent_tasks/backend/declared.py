"""Makes each declared Django task a guarded Celery task of the same name, in every Celery app."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any

from celery import _state  # what shared_task itself is made of

from ..exceptions import ConfigurationError
from ..task.declaring import options_of
from .body import BackendTask
from .framework import Task

_declared: dict[str, Task[..., Any]] = {}


def declare(task: Task[..., Any], *, anew: bool = False) -> None:
    """Give every Celery app this task, once; again where it was redefined, or got its options afterwards.

    A worker knows it once its module is imported, as with ``shared_task``.
    """
    name = task.module_path
    known = _declared.get(name)
    if known is not None and known.func is task.func and not anew:
        return
    _declared[name] = task if known is None or known.func is not task.func else known
    if known is None:
        _state.connect_on_app_finalize(partial(_create, name))
    for app in _state._get_active_apps():  # type: ignore[attr-defined]  # noqa: SLF001
        if app.finalized:
            _create(name, app)


def declared(name: str) -> Task[..., Any] | None:
    """The Django task of a name, as far as this process has imported it."""
    return _declared.get(name)


def celery_task(task: Task[..., Any], app: Any) -> Any:
    """The Celery task of a Django task."""
    return app.tasks[task.module_path]


def _create(name: str, app: Any) -> None:
    task = _declared[name]
    existing = app.tasks.get(name)
    if existing is not None and not isinstance(existing, BackendTask):
        msg = f"{name} is a Celery task and a Django task: give the Celery task another name=."
        raise ConfigurationError(msg)
    app.tasks.pop(name, None)
    options = {**options_of(task.func), "name": name, "base": BackendTask, "bind": True, "shared": False}
    app.task(_body(task), lazy=False, django_task=task, **options)


def _body(task: Task[..., Any]) -> Callable[..., Any]:
    """A function with the parameters of the task, from which the key of a call is computed."""

    def run(celery_task: Any, /, *args: Any, **kwargs: Any) -> Any:
        return celery_task.perform(args, kwargs)

    update_wrapper(run, task.func)
    del run.__wrapped__  # type: ignore[attr-defined]
    own = list(inspect.signature(task.func).parameters.values())[1 if task.takes_context else 0 :]
    first = inspect.Parameter("_celery_task", inspect.Parameter.POSITIONAL_ONLY)
    run.__signature__ = inspect.Signature([first, *own])  # type: ignore[attr-defined]
    return run
