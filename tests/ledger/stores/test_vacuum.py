"""Migration 0015 has PostgreSQL clear the keys of dead rows sooner, and changes no other database."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.apps import apps
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_idempotent_tasks.models import IdempotencyKey

KEY = IdempotencyKey._meta.db_table
migration = import_module("django_idempotent_tasks.migrations.0015_vacuum")
PARTITIONED = f"""
CREATE SCHEMA tenant;
CREATE TABLE tenant.{KEY} (digest uuid PRIMARY KEY) PARTITION BY HASH (digest);
CREATE TABLE tenant."{KEY} 0" PARTITION OF tenant.{KEY} FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE tenant."{KEY} 1" PARTITION OF tenant.{KEY} FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SET LOCAL search_path = tenant, public;
"""


def migrate(alias: str, *, back: bool = False) -> None:
    with connections[alias].schema_editor() as editor:
        (migration.reset_parameter if back else migration.set_parameter)(apps, editor)


def parameters() -> dict[str, list[str] | None]:
    """Of all tables that are the table of keys, or parts of it, by name."""
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT oid::regclass::text, reloptions FROM pg_class WHERE relkind = 'r' AND relname LIKE %s",
            [f"{KEY}%"],
        )
        return dict(cursor.fetchall())


@pytest.mark.postgresql
@pytest.mark.django_db
def test_postgresql_vacuums_keys_sooner_until_the_migration_is_taken_back() -> None:
    wanted = {KEY: ["autovacuum_vacuum_scale_factor=0.01"]}
    assert parameters() == wanted
    migrate("default", back=True)
    assert parameters() == {KEY: None}
    migrate("default")
    assert parameters() == wanted


@pytest.mark.postgresql
@pytest.mark.django_db
def test_each_partition_of_a_table_that_somebody_has_divided_is_vacuumed_sooner() -> None:
    with connections["default"].cursor() as cursor:
        cursor.execute(PARTITIONED)
    migrate("default")
    partitions = {f'"{KEY} {number}"' for number in range(2)}
    found = parameters()
    assert {name for name in partitions if found[name]} == partitions
    migrate("default", back=True)
    found = parameters()
    assert [found[name] for name in partitions] == [None, None]


@pytest.mark.django_db(transaction=True, databases=["sqlite"])
def test_sqlite_is_told_nothing() -> None:
    with CaptureQueriesContext(connections["sqlite"]) as said:
        migrate("sqlite")
        migrate("sqlite", back=True)
    verbs = {query["sql"].split()[0] for query in said.captured_queries}
    assert verbs <= {"PRAGMA", "BEGIN", "COMMIT"}
