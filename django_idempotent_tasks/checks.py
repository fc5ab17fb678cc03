"""System checks: E001 a task's options, E002 the settings. They read no database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import current_app
from django.core import checks

from .conf import settings
from .exceptions import ConfigurationError

_reading = False


def register() -> None:
    """Add the checks to ``manage.py check``."""
    checks.register(check_settings, "idempotent_tasks")
    checks.register(check_tasks, "idempotent_tasks")


def problems(app: Any) -> list[str]:
    """What is wrong with the settings and with the options of the app's tasks."""
    return [*_setting_problems(), *_task_problems(app)]


def check_settings(**_kwargs: object) -> list[checks.CheckMessage]:
    """E002: ``IDEMPOTENT_TASKS`` has an unknown name or a wrong value."""
    return [checks.Error(text, id="django_idempotent_tasks.E002") for text in _setting_problems()]


def check_tasks(**_kwargs: object) -> list[checks.CheckMessage]:
    """E001: a task has a wrong option; it cannot be sent or run until it is mended."""
    with _reading_tasks() as first:
        if not first:
            return []
        current_app.loader.import_default_modules()
        return [checks.Error(text, id="django_idempotent_tasks.E001") for text in _task_problems(current_app)]


@contextmanager
def _reading_tasks() -> Iterator[bool]:
    """Importing the task modules makes Celery run the checks again: the inner run finds nothing to do."""
    global _reading  # noqa: PLW0603  one import of the task modules a process
    first, _reading = not _reading, True
    try:
        yield first
    finally:
        if first:
            _reading = False


def _setting_problems() -> list[str]:
    try:
        settings()
    except ConfigurationError as error:
        return [str(error)]
    return []


def _task_problems(app: Any) -> list[str]:
    """A wrong setting stops every task from being read; it is reported once, as what it is."""
    errors = (getattr(task, "idempotency_error", None) for task in app.tasks.values())
    settings_are_wrong = set(_setting_problems())
    return [str(error) for error in errors if error is not None and str(error) not in settings_are_wrong]
