"""Databases with the ledger's tables for workers that need one of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection, connections
from django.test import override_settings

from example_project.database_url import database_from_url

if TYPE_CHECKING:
    from pytest_django.plugin import DjangoDbBlocker

#: A database with empty tables that nobody is connected to, to copy from.
TEMPLATE = f"test_process_{os.getpid()}_template"


@pytest.fixture(scope="session")
def template(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Migrate a database once in each process of the tests: the databases of all sites are copies of it."""
    if connection.vendor != "postgresql":
        pytest.skip("needs PostgreSQL")
    with django_db_blocker.unblock():
        _migrate(TEMPLATE)
    yield
    with django_db_blocker.unblock():
        _drop(TEMPLATE)


def _migrate(test_name: str) -> None:
    database = connection.settings_dict
    before, usual = database["NAME"], database["TEST"]["NAME"]
    connection.close()
    database["TEST"]["NAME"] = test_name
    try:
        connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    finally:
        connection.close()
        database["NAME"], database["TEST"]["NAME"] = before, usual


@contextmanager
def test_database() -> Iterator[str]:
    """Django's database is a copy of ``template``, so that no other test meets our sweepers; its URL."""
    database = connection.settings_dict
    name, own = database["NAME"], f"test_process_{os.getpid()}"
    connection.close()
    with _copy(own, TEMPLATE):
        database["NAME"] = own
        try:
            yield url_of(database)
        finally:
            connection.close()
            database["NAME"] = name


@contextmanager
def empty_database(alias: str) -> Iterator[str]:
    """A copy of ``template``, known to Django as ``alias``; its URL."""
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
        _drop(name)


def _drop(name: str) -> None:
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE {connection.ops.quote_name(name)} WITH (FORCE)")
