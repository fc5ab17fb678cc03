"""Finds the project's task of a name, also in a process that has not imported the tasks yet."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any

from celery import current_app
from django.utils.translation import gettext as _


def known_task(name: str) -> Any:
    """The project's task of this name; None where the project has none."""
    _import_tasks()
    return current_app.tasks.get(name)


def unknown_task() -> str:
    """The warning for a task that this process does not know."""
    return _("No task of this name is known here: was it renamed or removed?")


@cache
def _import_tasks() -> None:
    """Import the task modules as a worker does, once a process: a web process may not have done it."""
    with suppress(Exception):  # the checks report a module that cannot be imported
        current_app.loader.import_default_modules()
