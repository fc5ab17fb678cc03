"""Checks of what the server of the ledger's database says of itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .check import Catalogue, Severity

postgresql_server = Catalogue("PostgreSQL")
mysql_server = Catalogue("MariaDB and MySQL")

#: The share of a server's connections in use above which it counts as full.
FULL = 0.8
#: Rows that are deleted and still take their place: so many, and more than there are living ones.
DEAD_ROWS = 100_000
#: The oldest MariaDB that is supported.
OLDEST_MARIADB = (10, 6)

Server = Mapping[str, Any]


@postgresql_server.check(
    "D520",
    Severity.ERROR,
    finds="a server that takes no writes: a replica, or `default_transaction_read_only`",
    why="No claim can be written: each guarded task fails.",
    remedy="Let the ledger's DATABASES entry name the primary.",
)
def _is_read_only(server: Server) -> Iterator[str]:
    if server.get("in_recovery"):
        yield "pg_is_in_recovery() is true."
    elif server.get("default_transaction_read_only") == "on":
        yield "default_transaction_read_only is on."


@postgresql_server.check(
    "D521",
    Severity.WARNING,
    finds="another `default_transaction_isolation` than `read committed`",
    why="When two claims meet, they raise serialization errors and run again, where one would only wait.",
    remedy="ALTER ROLE ... SET default_transaction_isolation = 'read committed' for the project's role.",
)
def _is_isolated(server: Server) -> Iterator[str]:
    level = server.get("default_transaction_isolation", "read committed")
    if level != "read committed":
        yield f"default_transaction_isolation is {level}."


@postgresql_server.check(
    "D522",
    Severity.ERROR,
    finds="`fsync` or `full_page_writes` off",
    why="A crash of the server can damage the ledger, and everything else in that database.",
    remedy="Switch both on; they are for tests.",
)
def _is_not_safe(server: Server) -> Iterator[str]:
    for name in ("fsync", "full_page_writes"):
        if server.get(name) == "off":
            yield f"{name} is off."


@postgresql_server.check(
    "D523",
    Severity.WARNING,
    finds="`synchronous_commit` off",
    why="After a crash of the server the last completions are forgotten: what their bodies did outside the"
    " database is done again.",
    remedy="ALTER ROLE ... SET synchronous_commit = on for the project's role.",
)
def _forgets_commits(server: Server) -> Iterator[str]:
    if server.get("synchronous_commit") == "off":
        yield "synchronous_commit is off."


@postgresql_server.check(
    "D524",
    Severity.WARNING,
    finds="more than 80 % of `max_connections` in use",
    why="At the next deployment, with old and new processes, tasks and heartbeats get no connection.",
    remedy="Put PgBouncer in between, lower --concurrency, or raise max_connections.",
)
def _is_full(server: Server) -> Iterator[str]:
    used, most = int(server.get("connections", 0)), int(server.get("max_connections", 0))
    if used > FULL * most:
        yield f"{used} of {most} connections are in use."


@postgresql_server.check(
    "D525",
    Severity.WARNING,
    finds="more dead rows than living ones in the table of keys, or `autovacuum` off",
    why="Claims and the sweeper become slower by the day.",
    remedy="Switch autovacuum on; let it run more often on django_idempotent_tasks_idempotencykey"
    " (autovacuum_vacuum_scale_factor), and end transactions that stay open for hours.",
)
def _is_not_vacuumed(server: Server) -> Iterator[str]:
    dead, living = int(server.get("dead_rows") or 0), int(server.get("living_rows") or 0)
    if server.get("autovacuum") == "off":
        yield "autovacuum is off."
    elif dead > max(DEAD_ROWS, living):
        yield f"{dead:,} rows are dead, {living:,} are not."


@postgresql_server.check(
    "D526",
    Severity.ADVICE,
    finds="no `idle_in_transaction_session_timeout`",
    why="A process that hangs inside a transaction holds its locks and its dead rows until it is killed.",
    remedy="ALTER ROLE ... SET idle_in_transaction_session_timeout = '10min', longer than any atomic body.",
)
def _waits_for_ever(server: Server) -> Iterator[str]:
    if server.get("idle_in_transaction_session_timeout") == "0":
        yield "idle_in_transaction_session_timeout is 0."


@mysql_server.check(
    "D620",
    Severity.ERROR,
    finds="a table of the ledger in another engine than InnoDB",
    why="The engine has no transactions: a claim and its completion are not one with the writes of the body.",
    remedy="ALTER TABLE ... ENGINE = InnoDB for each table of the ledger.",
)
def _has_no_transactions(server: Server) -> Iterator[str]:
    for table, engine in sorted((server.get("engines") or {}).items()):
        if str(engine).lower() != "innodb":
            yield f"{table} is in {engine}."


@mysql_server.check(
    "D621",
    Severity.ERROR,
    finds="a server that takes no writes (`read_only`)",
    why="No claim can be written: each guarded task fails.",
    remedy="Let the ledger's DATABASES entry name the primary.",
)
def _is_a_replica(server: Server) -> Iterator[str]:
    if str(server.get("read_only", "0")).upper() in {"1", "ON"}:
        yield "read_only is on."


@mysql_server.check(
    "D622",
    Severity.WARNING,
    finds="`innodb_flush_log_at_trx_commit` other than 1",
    why="After a crash of the server the last completions are forgotten: what their bodies did outside the"
    " database is done again.",
    remedy="Set innodb_flush_log_at_trx_commit = 1.",
)
def _forgets_completions(server: Server) -> Iterator[str]:
    value = str(server.get("innodb_flush_log_at_trx_commit", "1"))
    if value != "1":
        yield f"innodb_flush_log_at_trx_commit is {value}."


@mysql_server.check(
    "D623",
    Severity.WARNING,
    finds="more than 80 % of `max_connections` in use",
    why="At the next deployment, with old and new processes, tasks and heartbeats get no connection.",
    remedy="Lower --concurrency, or raise max_connections.",
)
def _has_no_room(server: Server) -> Iterator[str]:
    used, most = int(server.get("connections", 0)), int(server.get("max_connections", 0))
    if used > FULL * most:
        yield f"{used} of {most} connections are in use."


@mysql_server.check(
    "D624",
    Severity.WARNING,
    finds="a `wait_timeout` shorter than `CONN_MAX_AGE`, without `CONN_HEALTH_CHECKS`",
    why="The server closes a connection that Django keeps, and the next task on it fails.",
    remedy="Set CONN_HEALTH_CHECKS to True, or CONN_MAX_AGE below wait_timeout.",
)
def _closes_kept_ones(server: Server) -> Iterator[str]:
    age, timeout = server.get("conn_max_age", 0), int(server.get("wait_timeout", 28_800))
    if not server.get("conn_health_checks") and (age is None or age > timeout):
        yield f"wait_timeout is {timeout} s, CONN_MAX_AGE is {age}."


@mysql_server.check(
    "D625",
    Severity.WARNING,
    finds="a MariaDB older than 10.6",
    why="The ledger is not tested there: it needs SKIP LOCKED.",
    remedy="Upgrade the server.",
)
def _is_old(server: Server) -> Iterator[str]:
    version = str(server.get("version", ""))
    parts = tuple(int(part) for part in version.partition("-")[0].split(".")[:2] if part.isdigit())
    if "mariadb" in version.lower() and parts < OLDEST_MARIADB:
        yield f"The server is {version}."
