"""Databases with the ledger's tables for workers that need one of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.apps import apps
from django.core.management import call_command
from django.db import connection, connections
from django.test import override_settings

from example_project.database_url import database_from_url

#: A database with empty tables that nobody is connected to, to copy from.
TEMPLATE = f"test_process_{os.getpid()}_template"


@contextmanager
def test_database() -> Iterator[str]:
    """Django's test database under a name of its own, so that no other test meets our sweepers; its URL."""
    database = connection.settings_dict
    name, test_name = database["NAME"], database["TEST"]["NAME"]
    database["TEST"]["NAME"] = f"test_process_{os.getpid()}"
    connection.close()
    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    try:
        connection.close()
        with _copy(TEMPLATE, database["NAME"]):
            yield url_of(database)
    finally:
        connection.creation.destroy_test_db(name, verbosity=0)
        database["TEST"]["NAME"] = test_name


@contextmanager
def empty_database(alias: str) -> Iterator[str]:
    """A copy of the test database as it was at first, known to Django as ``alias``; its URL."""
    name = f"test_process_{os.getpid()}_{alias}"
    with _copy(name, TEMPLATE):
        yield from _known({**connection.settings_dict, "NAME": name}, alias)


@contextmanager
def migrated_database(url: str, alias: str) -> Iterator[None]:
    """Create the tables in another server's database, known to Django as ``alias``."""
    wanted = ("django_idempotent_tasks", "django_celery_beat", "tests.sample")
    for _ in _known(database_from_url(url), alias):
        with override_settings(MIGRATION_MODULES={}):  # a single app is made by its migrations
            for app in filter(apps.is_installed, wanted):
                call_command("migrate", app.rpartition(".")[2], database=alias, verbosity=0)
        yield


def url_of(database: Mapping[str, Any]) -> str:
    """Write a DATABASES entry as DATABASE_URL, which worker processes read."""
    if database["ENGINE"].endswith("sqlite3"):
        return f"sqlite:///{database['NAME']}"
    account = ":".join(filter(None, (database["USER"], database["PASSWORD"])))
    return f"postgresql://{account}@{database['HOST']}:{database['PORT']}/{database['NAME']}"


def _known(database: Mapping[str, Any], alias: str) -> Iterator[str]:
    connections.databases[alias] = {**connection.settings_dict, **database}
    try:
        yield url_of(database)
    finally:
        connections[alias].close()
        del connections[alias], connections.databases[alias]


@contextmanager
def _copy(name: str, source: str) -> Iterator[None]:
    quote = connection.ops.quote_name
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {quote(name)} TEMPLATE {quote(source)}")
    try:
        yield
    finally:
        with connection._nodb_cursor() as cursor:
            cursor.execute(f"DROP DATABASE {quote(name)} WITH (FORCE)")
