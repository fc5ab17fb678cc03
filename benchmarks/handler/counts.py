"""Statements, transactions and WAL of a call, counted by the server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from django.db import connection
from django.db.utils import DatabaseError

from benchmarks.figures.arithmetic import per_task
from benchmarks.handler.handler import HANDLERS, Bench, Handler
from example_project.servers import Server

CALLS, REPEATS = 20, 3

# A transaction gets a number when it first changes something. This one changes nothing.
SERVER = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, pg_current_wal_insert_lsn() - '0/0'"
STATEMENTS = r"""
SELECT coalesce(sum(calls), 0) FROM pg_stat_statements
 WHERE query NOT IN ('BEGIN', 'COMMIT') AND query NOT LIKE '%pg\_stat\_%' AND query NOT LIKE '%pg\_current\_%'
"""


@dataclass(frozen=True)
class Counts:
    """Of one call: ``statements`` without BEGIN and COMMIT, None where the server cannot tell.

    ``commits`` are of transactions that changed something; ``wal`` is in bytes.
    """

    statements: float | None
    commits: float
    wal: float


def count_handlers(bench: Bench, server: Server | None) -> dict[str, Counts]:
    """Count every handler, by label.

    Restarts a server of our own with its statement counter, which costs time and is therefore not
    there while anything is timed, and without the whole pages that WAL gets after a checkpoint;
    nobody else may be connected.
    """
    can_count = start_counting(server)
    return {handler.label: _usual(bench, handler, can_count=can_count) for handler in HANDLERS}


def start_counting(server: Server | None) -> bool:
    """Have the server count statements, and write no whole pages; whether it counts."""
    if server is not None:
        _execute("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")
        _execute("ALTER SYSTEM SET full_page_writes = off")
        connection.close()
        server.restart()
    return _has_counter()


def _has_counter() -> bool:
    try:
        _execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        _row(STATEMENTS)
    except DatabaseError:
        return False
    return True


def _usual(bench: Bench, handler: Handler, *, can_count: bool) -> Counts:
    """The median of some runs: something else may write at any moment, such as autovacuum."""
    runs = [counted(lambda: bench.call(handler), can_count=can_count) for _ in range(REPEATS)]
    statements, commits, wal = (median(column) for column in zip(*runs, strict=True))
    return Counts(statements if can_count else None, commits, wal)


def counted(call: Callable[[], object], *, can_count: bool) -> list[float]:
    """Statements (0 where the server cannot tell), commits and bytes of WAL of one call."""
    call()
    before = _read(can_count=can_count)
    for _ in range(CALLS):
        call()
    after = _read(can_count=can_count)
    return [per_task(first, last, CALLS) for first, last in zip(before, after, strict=True)]


def _read(*, can_count: bool) -> list[float]:
    return [*(_row(STATEMENTS) if can_count else [0.0]), *_row(SERVER)]


def _row(query: str) -> list[float]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return [float(value) for value in cursor.fetchone()]


def _execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
