"""The project's task of a name, also in a process that has imported no tasks."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any

from celery import current_app


def known_task(name: str) -> Any:
    """The project's task of this name, also where only workers have imported it yet; None without one."""
    _import_tasks()
    return current_app.tasks.get(name)


@cache
def _import_tasks() -> None:
    """Once a process, as a worker does: a web process may not have imported them."""
    with suppress(Exception):  # a module that cannot be imported is for the checks to tell
        current_app.loader.import_default_modules()
