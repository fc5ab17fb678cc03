"""PostgreSQL clears the table of keys of dead rows sooner, so that sweeps and prunes pass over few."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import migrations

#: A hundredth of the rows instead of a fifth, on this table alone.
PARAMETER, VALUE = "autovacuum_vacuum_scale_factor", "0.01"

#: The table, or the partitions that somebody has made of it: a partitioned table takes no parameters.
TABLES = """
SELECT oid::regclass::text FROM pg_class WHERE oid = %(table)s::regclass AND relkind = 'r'
UNION ALL SELECT relid::regclass::text FROM pg_partition_tree(%(table)s::regclass) WHERE isleaf
"""


def set_parameter(apps: Any, editor: Any) -> None:
    """Other work on the table goes on meanwhile."""
    for table in _tables(apps, editor):
        editor.execute(f"ALTER TABLE {table} SET ({PARAMETER} = {VALUE})")


def reset_parameter(apps: Any, editor: Any) -> None:
    """Leave it to the server again."""
    for table in _tables(apps, editor):
        editor.execute(f"ALTER TABLE {table} RESET ({PARAMETER})")


def _tables(apps: Any, editor: Any) -> list[str]:
    if editor.connection.vendor != "postgresql":
        return []
    table = apps.get_model("django_idempotent_tasks", "IdempotencyKey")._meta.db_table
    with editor.connection.cursor() as cursor:
        cursor.execute(TABLES, {"table": editor.quote_name(table)})
        return [name for (name,) in cursor.fetchall()]


class Migration(migrations.Migration):
    """Only PostgreSQL is changed."""

    dependencies: ClassVar = [("django_idempotent_tasks", "0014_shadow")]
    operations: ClassVar = [migrations.RunPython(set_parameter, reset_parameter)]
