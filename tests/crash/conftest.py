"""The two databases, and settings under which a test decides what happens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

ALIASES = ["default", "sqlite"]


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
def alias(request: pytest.FixtureRequest, transactional_db: None, settings: Any) -> str:  # noqa: ARG001
    """A database that two processes can share, with the ledger in it."""
    name: str = request.param
    if name == "default" and connections[name].vendor != "postgresql":
        pytest.skip("needs PostgreSQL as the default database")
    settings.IDEMPOTENT_TASKS = {"DATABASE": name}
    return name
