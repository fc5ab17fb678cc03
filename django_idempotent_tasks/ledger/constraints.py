"""Checks that the ledger's tables still have their unique keys and indexes.

They are missing after a dump was loaded without them, after a copy with ``CREATE TABLE AS``, or where
``REINDEX CONCURRENTLY`` left an index invalid. Without its primary key the ledger grants one key to two
claims.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.apps import apps
from django.core import checks
from django.db import Error as DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model, UniqueConstraint

from .. import migrations
from ..conf import settings
from ..exceptions import ConfigurationError
from .stores import LedgerStore, get_store

ID = "django_idempotent_tasks"

#: The indexes of a table on PostgreSQL, in whatever schema, without those that it does not keep up.
_INDEXES = """
SELECT i.indisprimary, i.indisunique AND i.indpred IS NULL,
       array_agg(a.attname::text ORDER BY keys.place)
  FROM pg_index i
 CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY AS keys(number, place)
  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = keys.number
 WHERE i.indrelid = to_regclass(%s) AND i.indisvalid AND i.indisready
 GROUP BY i.indexrelid, i.indisprimary, i.indisunique, i.indpred
"""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A key or index that a model needs; ``name`` is that of the migrations, empty for a primary key."""

    table: str
    columns: tuple[str, ...]
    name: str = ""
    unique: bool = True

    def is_among(self, found: list[_Found], connection: BaseDatabaseWrapper) -> bool:
        """Whether one of the database's indexes serves as this one, whatever its name."""
        if not self.unique:
            return any(each.columns[: len(self.columns)] == self.columns for each in found)
        # Statements for MariaDB and MySQL name the index PRIMARY.
        named = not self.name and connection.vendor == "mysql"
        serving = [each for each in found if each.primary or (each.unique and not named)]
        return any(sorted(each.columns) == sorted(self.columns) for each in serving)

    def missing(self, connection: BaseDatabaseWrapper) -> Missing:
        """Describe that this key or index is missing."""
        quote = connection.ops.quote_name
        table, columns = quote(self.table), ", ".join(map(quote, self.columns))
        if not self.unique:
            what, harm = f"The index {self.name}", "statements that need it read the whole table"
            remedy = f"CREATE INDEX {quote(self.name)} ON {table} ({columns})"
        else:
            what = f"The unique constraint {self.name}" if self.name else "The primary key"
            harm = "one piece of work can get two rows, and run twice"
            remedy = f"CREATE UNIQUE INDEX {quote(self.name or f'{self.table}_pk')} ON {table} ({columns})"
            if not self.name and connection.vendor != "sqlite":
                remedy = f"ALTER TABLE {table} ADD PRIMARY KEY ({columns})"
            remedy = f"delete rows that are there twice, then {remedy}"
        text = (
            f"{what} ({', '.join(self.columns)}) of the table {self.table} is missing in the database"
            f" {connection.alias!r}, or not valid: {harm}."
        )
        return Missing(text, f"Stop the workers, {remedy};", is_unique=self.unique)


@dataclass(frozen=True, slots=True)
class _Found:
    """A key or an index that the database keeps up."""

    primary: bool
    unique: bool
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that the migrations made and that is not there, with what restores it."""

    text: str
    remedy: str
    is_unique: bool


def missing(store: LedgerStore) -> list[Missing]:
    """The keys and indexes that the ledger's tables lack, worst first; raises what the database raises.

    None before the last migration has been applied, and none of a table that does not exist.
    """
    connection = store.connection
    tables = connection.introspection.table_names()
    if not _is_migrated(connection, tables):
        return []
    lacking = []
    for model in apps.get_app_config(ID).get_models():
        found = _found(store, model)
        if found is not None:
            wanted = _wanted(model, connection)
            lacking += [each.missing(connection) for each in wanted if not each.is_among(found, connection)]
    return sorted(lacking, key=lambda each: not each.is_unique)


def check_constraints(*, databases: Any = None, **_kwargs: object) -> list[checks.CheckMessage]:
    """The checks E005 and W010 of ``manage.py check --database``; pass while the database does not answer."""
    try:
        alias = settings().database
    except ConfigurationError:  # E002 says so
        return []
    return [
        checks.Error(each.text, hint=each.remedy, id=f"{ID}.E005")
        if each.is_unique
        else checks.Warning(each.text, hint=each.remedy, id=f"{ID}.W010")
        for each in (missing_in(get_store()) if alias in (databases or ()) else [])
    ]


def missing_in(store: LedgerStore) -> list[Missing]:
    """Like :func:`missing`, on a connection of its own; empty while the database does not answer."""
    try:
        with store.side_connection() as side:
            return missing(side)
    except DatabaseError:
        return []


def _is_migrated(connection: BaseDatabaseWrapper, tables: list[str]) -> bool:
    """Whether the last migration was applied: what it adds is not missing before that.

    A database without a table of migrations was made from the models.
    """
    if "django_migrations" not in tables:
        return True
    last = max(path.stem for path in Path(migrations.__path__[0]).glob("[0-9]*.py"))
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM django_migrations WHERE app = %s AND name = %s", [ID, last])
        return cursor.fetchone() is not None


def _wanted(model: type[Model], connection: BaseDatabaseWrapper) -> Iterator[_Wanted]:
    meta = model._meta
    if meta.proxy:
        return
    assert meta.pk is not None  # noqa: S101  a model that is no proxy has one
    yield _Wanted(meta.db_table, _columns(model, [meta.pk.name]))
    for constraint in meta.constraints:
        if isinstance(constraint, UniqueConstraint):
            yield _Wanted(meta.db_table, _columns(model, constraint.fields), constraint.name)
    for index in meta.indexes:
        if index.condition is None or connection.features.supports_partial_indexes:
            yield _Wanted(meta.db_table, _columns(model, index.fields), index.name, unique=False)


def _columns(model: type[Model], fields: Any) -> tuple[str, ...]:
    return tuple(str(getattr(model._meta.get_field(name), "column", "")) for name in fields)


def _found(store: LedgerStore, model: type[Model]) -> list[_Found] | None:
    """The keys and indexes of a model's table; None where there is no such table."""
    connection, table = store.connection, model._meta.db_table
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            named = f'"{schema}".{table}' if (schema := settings().schema) else table
            cursor.execute("SELECT to_regclass(%s)", [named])
            if cursor.fetchone()[0] is None:
                return None
            cursor.execute(_INDEXES, [named])
            return [_Found(primary, unique, tuple(names)) for primary, unique, names in cursor.fetchall()]
        if table not in connection.introspection.table_names(cursor):
            return None
        constraints = connection.introspection.get_constraints(cursor, table).values()
    kept = [each for each in constraints if each["index"] or each["unique"] or each["primary_key"]]
    return [_Found(bool(e["primary_key"]), bool(e["unique"]), tuple(e["columns"])) for e in kept]
