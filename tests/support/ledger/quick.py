"""Makes tests that commit quick: hundreds of them empty a few small tables each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

#: For a test of more than one app: Django fills tables again after a test that does not name its apps.
EVERY_APP = list(settings.INSTALLED_APPS)
#: What Django fills them with, and no test changes.
KEPT = {"auth_permission", "django_content_type"}


@pytest.fixture(autouse=True, scope="package")
def emptied_by_delete() -> Iterator[None]:
    """TRUNCATE makes new files for every table and index, which takes longer than the test."""
    ops = connections["default"].ops

    def delete(_style: object, tables: Iterable[str], **_: Any) -> list[str]:
        emptied = set(tables) - KEPT
        return [f"DELETE FROM {ops.quote_name(table)}" for table in emptied]  # noqa: S608  Django's own names

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ops, "sql_flush", delete)
        yield


@pytest.fixture(autouse=True, scope="package")
def careless_sqlite() -> Iterator[None]:
    """No test survives a power cut anyway."""
    connection_created.connect(_trust_the_disk)
    yield
    connection_created.disconnect(_trust_the_disk)


def _trust_the_disk(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA synchronous = OFF")
