"""``CeleryBackend``: enqueues a Django task as a reserved call, and reads its result in the ledger."""

from __future__ import annotations

from typing import Any

from celery import current_app
from django.apps import apps
from django.core import checks
from django.utils.module_loading import import_string

from .body import enqueuing
from .declared import celery_task, declare
from .framework import BaseTaskBackend, Task, TaskResult, normalize_json, task_enqueued
from .wishes import options_of

ID = APP = "django_idempotent_tasks"


class CeleryBackend(BaseTaskBackend):
    """Runs Django's tasks in Celery's workers, each of them a guarded call that the ledger has reserved.

    An enqueue belongs to the open transaction: a rollback takes it back, and after the commit nothing
    loses it. ``OPTIONS``: ``CELERY_APP``, the dotted path of the app that sends, else the current one.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: Task[..., Any]) -> None:
        """Check the task, and make it known to Celery: Django calls this where a task is declared."""
        super().validate_task(task)
        declare(task)

    def redeclare(self, task: Task[..., Any]) -> None:
        """Give the task the options that ``@idempotent`` has stated after its declaration."""
        declare(task, anew=True)

    def enqueue(self, task: Task[..., Any], args: Any, kwargs: Any) -> Any:
        """Reserve a call. A duplicate under the task's key gets the result of the call that has the work.

        Raises TypeError for arguments that are no JSON, and what ``apply_async`` of a reserved call does.
        """
        self.validate_task(task)
        args, kwargs = normalize_json(list(args)), normalize_json(dict(kwargs))
        app = self.app
        announced: list[TaskResult[..., Any]] = []

        def announce(task_id: str) -> None:
            announced.append(self._result(task_id, task))
            task_enqueued.send(type(self), task_result=announced[0])

        with enqueuing(announce):
            accepted = celery_task(task, app).apply_async(args, kwargs, **options_of(task, app))
        if getattr(accepted, "duplicate", False):
            return self.get_result(accepted.id)
        if announced:  # it has run meanwhile
            return self._result(accepted.id, task, args, kwargs)
        announce(accepted.id)
        return announced[0]

    def get_result(self, result_id: str) -> TaskResult[..., Any]:
        """The result of a call, from the ledger. Raises TaskResultDoesNotExist."""
        return self._result(result_id)

    @property
    def app(self) -> Any:
        """The Celery app that sends."""
        path = self.options.get("CELERY_APP")
        return current_app if path is None else import_string(path)

    def check(self, **_kwargs: object) -> list[checks.CheckMessage]:
        """E006: the app is not installed, and so there is no ledger."""
        if apps.is_installed(APP):
            return []
        text = f"The task backend {self.alias!r} needs {APP} in INSTALLED_APPS, for the ledger's tables."
        return [checks.Error(text, hint=f"Add {APP!r} and run 'manage.py migrate'.", id=f"{ID}.E006")]

    def _result(
        self, result_id: str, task: Task[..., Any] | None = None, args: Any = None, kwargs: Any = None
    ) -> TaskResult[..., Any]:
        # The ledger's models exist once Django is set up; tasks are declared before.
        from .results import result_of  # noqa: PLC0415

        result = result_of(str(result_id), backend=self.alias, task=task)
        if args is not None:
            object.__setattr__(result, "args", args)
            object.__setattr__(result, "kwargs", kwargs)
        return result
