"""Makes tests that commit quick: thousands of them empty a few small tables each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.test import TransactionTestCase

#: For a test of more than one app: Django fills tables again after a test that does not name its apps.
EVERY_APP = list(settings.INSTALLED_APPS)
#: What Django fills them with, and no test changes.
KEPT = {"auth_permission", "django_content_type"}


@pytest.fixture(autouse=True, scope="session")
def emptied_by_delete() -> Iterator[None]:
    """Empty all tables in one go: flush looks for the tables anew, and TRUNCATE makes new files for each."""

    def empty(case: Any) -> None:
        for name in case._databases_names(include_mirrors=False):
            _empty(connections[name])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", empty)
        yield


def _empty(connection: BaseDatabaseWrapper) -> None:
    deletes = [
        f"DELETE FROM {connection.ops.quote_name(table)};"  # noqa: S608  Django's own names
        for table in sorted(_tables() - KEPT)
    ]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("".join(deletes))
        elif connection.vendor == "sqlite":
            cursor.executescript("".join(["BEGIN;", *deletes, "COMMIT;"]))
        else:  # MariaDB and MySQL take one statement at a time, and look at each key at once
            for statement in ("SET foreign_key_checks = 0", *deletes, "SET foreign_key_checks = 1"):
                cursor.execute(statement)


def _tables() -> set[str]:
    found = apps.get_models(include_auto_created=True)
    return {model._meta.db_table for model in found if model._meta.managed and not model._meta.proxy}


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
