"""Each promise on both databases; an app and a database for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from celery import signals
from django.db import connections
from django.db.backends.signals import connection_created

from django_idempotent_tasks.running import altered
from django_idempotent_tasks.worker import hooks
from tests.support.ledger.quick import careless_sqlite
from tests.support.till import Counter, Till

if TYPE_CHECKING:
    from pytest_django import Settings

__all__ = ["careless_sqlite"]

ALIASES = ["default", "sqlite"]
#: Those whose tables are emptied after each test.
APPS = ["django_idempotent_tasks", "tests.sample"]


def need_postgresql() -> None:
    """Skip where the default database is another one."""
    if connections["default"].vendor != "postgresql":
        pytest.skip("needs PostgreSQL as the default database")


@pytest.fixture(params=ALIASES)
def alias(request: pytest.FixtureRequest, transactional_db: None, settings: Settings) -> str:  # noqa: ARG001
    """The ledger's database."""
    name: str = request.param
    if name == "default":
        need_postgresql()
    settings.IDEMPOTENT_TASKS = {"DATABASE": name}
    return name


@pytest.fixture
def postgresql(transactional_db: None) -> Counter:  # noqa: ARG001
    """PostgreSQL's side of a test, for what SQLite does not have."""
    need_postgresql()
    return Counter("default")


@pytest.fixture
def watching(alias: str) -> Iterator[None]:
    """Watch connections as a worker does that keeps them, and no longer than the test."""
    connections[alias].close()
    hooks.watch_connections()
    yield
    signals.task_postrun.disconnect(hooks._on_task_end, dispatch_uid=hooks._UID)
    connection_created.disconnect(dispatch_uid=altered._UID)
    for each in connections.all(initialized_only=True):
        each.close()
        each.execute_wrappers.clear()


@pytest.fixture
def shop(alias: str) -> Counter:
    """The database's side of a test."""
    return Counter(alias)


@pytest.fixture
def till(request: pytest.FixtureRequest) -> Iterator[Till]:
    """An app of its own, with its tasks."""
    till = Till(request.node.name)
    till.finalize()  # tasks are made where they are decorated, not in the first thread that uses one
    yield till
    till.close()
