"""MariaDB and MySQL compare text without regard to case and trailing spaces; ids and keys differ by them.

MariaDB's type ``uuid`` refuses one value in four, and a digest may be any.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import migrations, models

#: Without PAD SPACE, as ``utf8mb4_bin`` has it.
MARIADB, MYSQL = "utf8mb4_nopad_bin", "utf8mb4_0900_bin"

TABLES = ("IdempotencyKey", "AnsweredCall", "DuplicateAttempt", "Leader")


def _convert(apps: Any, editor: Any, clause: str) -> None:
    for name in TABLES:
        table = editor.quote_name(apps.get_model("django_idempotent_tasks", name)._meta.db_table)
        editor.execute(f"ALTER TABLE {table} CONVERT TO CHARACTER SET {clause}")


def _take_any_digest(apps: Any, editor: Any) -> None:
    for name in TABLES:
        meta = apps.get_model("django_idempotent_tasks", name)._meta
        for field in meta.local_fields:
            if isinstance(field, models.UUIDField):
                table, column = editor.quote_name(meta.db_table), editor.quote_name(field.column)
                null = "NULL" if field.null else "NOT NULL"
                editor.execute(f"ALTER TABLE {table} MODIFY {column} char(36) {null}")


def compare_bytes(apps: Any, editor: Any) -> None:
    """Compare text as it is, and store digests as text."""
    if editor.connection.vendor != "mysql":
        return
    if editor.connection.features.has_native_uuid_field:
        _take_any_digest(apps, editor)
    collation = MARIADB if editor.connection.mysql_is_mariadb else MYSQL
    _convert(apps, editor, f"utf8mb4 COLLATE {collation}")


def compare_loosely(apps: Any, editor: Any) -> None:
    """Compare text as the server does by default; digests stay as they are, or some could not be kept."""
    if editor.connection.vendor == "mysql":
        _convert(apps, editor, "utf8mb4")


class Migration(migrations.Migration):
    """Only MariaDB and MySQL are changed."""

    dependencies: ClassVar = [("django_idempotent_tasks", "0001_ledger")]
    operations: ClassVar = [migrations.RunPython(compare_bytes, compare_loosely, atomic=False)]
