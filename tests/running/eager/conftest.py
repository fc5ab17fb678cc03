"""An app that runs every task where it is called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from django.db import connection

from django_idempotent_tasks.models import IdempotencyKey
from tests.support.till import Till


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


@pytest.fixture(
    params=[
        pytest.param(True, marks=pytest.mark.django_db, id="in a TestCase"),
        pytest.param(False, marks=pytest.mark.django_db(transaction=True), id="outside a transaction"),
    ]
)
def _twice(request: pytest.FixtureRequest) -> None:
    """Run a test in an open transaction and again without one."""
    assert connection.in_atomic_block is request.param


def only_row() -> IdempotencyKey:
    """The one row of the ledger."""
    return IdempotencyKey.objects.get()


@pytest.fixture
def till(request: pytest.FixtureRequest) -> Iterator[Till]:
    """An app whose messages are delivered as to a worker."""
    till = Till(request.node.name)
    till.finalize()
    yield till
    till.close()
