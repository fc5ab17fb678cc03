"""An app that runs every task where it is called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery


class EagerApp(Celery):
    """Runs every task where it is called, and keeps its tasks to itself."""

    def __init__(self, **options: Any) -> None:
        super().__init__("eager", set_as_current=False, backend="disabled://", **options)
        self.conf.task_always_eager = True

    def task(self, *arguments: Any, **options: Any) -> Any:
        """Decorate a task; Celery would add it to every other app of the process as well."""
        return super().task(*arguments, **{"shared": False, **options})


@pytest.fixture
def app() -> Iterator[Celery]:
    """An eager app, which is not the current one."""
    app = EagerApp()
    yield app
    app.close()
