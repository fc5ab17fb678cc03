"""What MariaDB and MySQL need of every table of ours: text compared as it is, digests stored as text.

Their default collations compare text without regard to case and trailing spaces; ids and keys differ
by them. MariaDB's type ``uuid`` refuses one value in four, and a digest may be any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.db import migrations, models

#: Without PAD SPACE, as ``utf8mb4_bin`` has it.
MARIADB, MYSQL = "utf8mb4_nopad_bin", "utf8mb4_0900_bin"


def compared_by_bytes(tables: Sequence[str]) -> migrations.RunPython:
    """The operation for these tables; on every other database it does nothing."""
    return migrations.RunPython(_compare_bytes(tables), _compare_loosely(tables), atomic=False)


def _compare_bytes(tables: Sequence[str]) -> Callable[[Any, Any], None]:
    def compare(apps: Any, editor: Any) -> None:
        if editor.connection.vendor != "mysql":
            return
        if editor.connection.features.has_native_uuid_field:
            _take_any_digest(apps, editor, tables)
        collation = MARIADB if editor.connection.mysql_is_mariadb else MYSQL
        _convert(apps, editor, tables, f"utf8mb4 COLLATE {collation}")

    return compare


def _compare_loosely(tables: Sequence[str]) -> Callable[[Any, Any], None]:
    """Text as the server compares it by default; digests stay as they are, or some could not be kept."""

    def compare(apps: Any, editor: Any) -> None:
        if editor.connection.vendor == "mysql":
            _convert(apps, editor, tables, "utf8mb4")

    return compare


def _convert(apps: Any, editor: Any, tables: Sequence[str], clause: str) -> None:
    for name in tables:
        table = editor.quote_name(apps.get_model("django_idempotent_tasks", name)._meta.db_table)
        editor.execute(f"ALTER TABLE {table} CONVERT TO CHARACTER SET {clause}")


def _take_any_digest(apps: Any, editor: Any, tables: Sequence[str]) -> None:
    for name in tables:
        meta = apps.get_model("django_idempotent_tasks", name)._meta
        for field in meta.local_fields:
            if isinstance(field, models.UUIDField):
                table, column = editor.quote_name(meta.db_table), editor.quote_name(field.column)
                null = "NULL" if field.null else "NOT NULL"
                editor.execute(f"ALTER TABLE {table} MODIFY {column} char(36) {null}")
