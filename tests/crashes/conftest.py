"""The two databases of the crash tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

if TYPE_CHECKING:
    from pytest_django import Settings

ALIASES = ["default", "sqlite"]
#: Those whose tables are emptied after each test.
APPS = ["django_idempotent_tasks", "tests.sample"]


def _trust_the_disk(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA synchronous = OFF")


@pytest.fixture(autouse=True)
def _no_test_survives_a_power_cut() -> Iterator[None]:
    connection_created.connect(_trust_the_disk)
    yield
    connection_created.disconnect(_trust_the_disk)


@pytest.fixture(params=ALIASES)
def alias(request: pytest.FixtureRequest, transactional_db: None, settings: Settings) -> str:  # noqa: ARG001
    """A database with the ledger in it, that several processes can use."""
    name: str = request.param
    if name == "default":
        _need_postgresql()
    settings.IDEMPOTENT_TASKS = {"DATABASE": name}
    return name


@pytest.fixture
def postgresql(transactional_db: None) -> str:  # noqa: ARG001
    """The alias of PostgreSQL."""
    _need_postgresql()
    return "default"


def _need_postgresql() -> None:
    if connections["default"].vendor != "postgresql":
        pytest.skip("needs PostgreSQL as the default database")
