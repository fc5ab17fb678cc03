"""The pytest plugin: the fixture ``idempotent_tasks``. Loading it imports neither Django nor Celery."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .testing.project import IdempotentTasks


@pytest.fixture
def idempotent_tasks() -> Iterator[IdempotentTasks]:
    """Reserved calls of one test: ``drain()``, ``assert_reserved()``, ``crash()``, ``advance()`` ...

    The test brings its database itself, by ``django_db`` or Django's ``TestCase``.
    """
    from .testing.project import IdempotentTasks  # noqa: PLC0415  it has models

    with IdempotentTasks() as tasks:
        yield tasks
