"""Two databases on one server, one with few keys and one with many, filled by SQL."""

from __future__ import annotations

import time
from dataclasses import dataclass
from hashlib import md5
from typing import Any
from uuid import UUID

from django.core.management import call_command
from django.db import connections

from django_idempotent_tasks.models import IdempotencyKey

FEW, MANY = "default", "many"
TABLE = IdempotencyKey._meta.db_table
#: Rows of one statement, so that a long fill can be watched.
BITE = 1_000_000

#: Checkpoints come when asked for: after each, the first change of a page writes the whole page. The
#: table's vacuum is ours as well.
QUIET = (
    "ALTER SYSTEM SET checkpoint_timeout = '1h'",
    "ALTER SYSTEM SET max_wal_size = '32GB'",
    "ALTER SYSTEM SET autovacuum = off",
    "ALTER SYSTEM SET maintenance_work_mem = '512MB'",
    "SELECT pg_reload_conf()",
)

#: Completed keys as a worker leaves them, over the last week; md5 scatters them as SHA-256 would.
FILL = """
INSERT INTO {table} (digest, due_at, open_at, created_at, started_at, finished_at, token, generation,
  lease_seconds, duplicates, state, reason, attempts, crashes, sends, in_external, task, key_text, task_id,
  owner)
SELECT md5('key ' || n)::uuid, at + interval '7 days', at + interval '7 days', at, at, at, 1, 1,
  60, 0, 7, 1, 1, 0, 0, false, 'shop.tasks.charge', 'order_id=' || n, md5('call ' || n)::uuid::text,
  md5('worker') || ':4242:' || substr(md5('owner ' || n), 1, 16)
  FROM (SELECT n, now() - interval '7 days' * (1 - n / %(rows)s::float8) AS at
          FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n) AS numbered
"""

INDEXES = """
SELECT indexname, indexdef FROM pg_indexes WHERE tablename = %(table)s AND indexname NOT LIKE '%%pkey'
"""

SIZES = """
SELECT c.relname, pg_relation_size(c.oid) / 1048576.0 FROM pg_class c
 WHERE c.oid = %(table)s::regclass
    OR c.oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = %(table)s::regclass)
 ORDER BY 2 DESC
"""


@dataclass(frozen=True)
class Filled:
    """A table: how long it took, and the megabytes of it and of its indexes by name."""

    rows: int
    seconds: float
    megabytes: dict[str, float]

    @property
    def text(self) -> str:
        """One line for people."""
        indexes = {name: size for name, size in self.megabytes.items() if name != TABLE}
        sizes = ", ".join(f"{name.removeprefix(f'{TABLE}_')} {size:,.0f}" for name, size in indexes.items())
        whole = f"table {self.megabytes[TABLE]:,.0f} MB, indexes {sum(indexes.values()):,.0f} MB"
        return f"{self.rows:,} keys filled in {self.seconds:,.1f} s: {whole} ({sizes})"


def known_digest(number: int) -> UUID:
    """The digest of a filled key, numbered from 1."""
    return UUID(md5(f"key {number}".encode(), usedforsecurity=False).hexdigest())


def make_databases() -> None:
    """Create the second database, and the tables in both."""
    for statement in (*QUIET, "CREATE DATABASE many"):
        execute(FEW, statement)
    connections.databases[MANY] = {**connections.databases[FEW], "NAME": "many"}
    for alias in (FEW, MANY):
        call_command("migrate", verbosity=0, run_syncdb=True, database=alias)


def fill(alias: str, rows: int, statement: str = FILL) -> Filled:
    """Fill an empty table by a statement, build its indexes and vacuum it."""
    began = time.monotonic()
    indexes = execute(alias, INDEXES, table=TABLE)
    for name, _definition in indexes:
        execute(alias, f"DROP INDEX {name}")
    key = _primary_key(alias)
    execute(alias, f"ALTER TABLE {TABLE} DROP CONSTRAINT {key}")
    for first in range(1, rows + 1, BITE):
        last = min(rows, first + BITE - 1)
        execute(alias, statement.format(table=TABLE), rows=rows, first=first, last=last)
    execute(alias, f"ALTER TABLE {TABLE} ADD CONSTRAINT {key} PRIMARY KEY (digest)")
    for _name, definition in indexes:
        execute(alias, definition)
    execute(alias, f"VACUUM (ANALYZE) {TABLE}")
    execute(alias, "CHECKPOINT")
    seconds = time.monotonic() - began
    sizes = {name: float(size) for name, size in execute(alias, SIZES, table=TABLE)}
    return Filled(rows, seconds, sizes)


def write_images(setting: str) -> None:
    """Let the first change of a page after a checkpoint write the whole page (``on``) or not (``off``)."""
    execute(FEW, f"ALTER SYSTEM SET full_page_writes = {setting}")
    execute(FEW, "SELECT pg_reload_conf()")


def execute(alias: str, statement: str, **parameters: int | str | list[Any]) -> list[Any]:
    """Run one statement; its rows, if it has any."""
    with connections[alias].cursor() as cursor:
        cursor.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else []


def _primary_key(alias: str) -> str:
    query = "SELECT conname FROM pg_constraint WHERE conrelid = %(table)s::regclass AND contype = 'p'"
    return str(execute(alias, query, table=TABLE)[0][0])
