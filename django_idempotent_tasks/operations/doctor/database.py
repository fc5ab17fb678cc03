"""Checks of the ledger's entry in ``DATABASES``, whatever the database."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings as django_settings
from django.db import router

from ...models import IdempotencyKey
from .check import Catalogue, Severity
from .project import Project

ledger = Catalogue("Ledger")
postgresql = Catalogue("PostgreSQL")
mysql = Catalogue("MariaDB and MySQL")


@ledger.check(
    "D701",
    Severity.WARNING,
    finds="the ledger on SQLite",
    why="One process writes at a time, and the file must be on the host of every worker.",
    remedy="Use PostgreSQL or MariaDB where more than one host works, or more than a few tasks a second run.",
)
def _is_sqlite(project: Project) -> Iterator[str]:
    if project.vendor == "sqlite":
        yield f"DATABASES[{project.alias!r}] is SQLite."


@ledger.check(
    "D702",
    Severity.WARNING,
    finds="kept connections without `CONN_HEALTH_CHECKS`",
    why="After a restart of the database each kept connection fails one task or request.",
    remedy="Set CONN_HEALTH_CHECKS to True beside CONN_MAX_AGE.",
)
def _is_not_tested(project: Project) -> Iterator[str]:
    kept = project.ledger.get("CONN_MAX_AGE", 0) != 0
    if project.vendor in {"postgresql", "mysql"} and kept and not project.ledger.get("CONN_HEALTH_CHECKS"):
        yield f"CONN_HEALTH_CHECKS of {project.alias!r} is off, and CONN_MAX_AGE is not 0."


@ledger.check(
    "D703",
    Severity.ERROR,
    finds="a database router that keeps the ledger's tables out of the ledger's database",
    why="'manage.py migrate' makes no tables there, and a worker refuses to start.",
    remedy="Let allow_migrate of the router return True or None for django_idempotent_tasks there.",
)
def _is_not_migrated(project: Project) -> Iterator[str]:
    if project.alias is not None and not router.allow_migrate_model(project.alias, IdempotencyKey):
        yield f"DATABASE_ROUTERS allow no migration of the ledger on {project.alias!r}."


@ledger.check(
    "D704",
    Severity.ADVICE,
    finds="no limit to how long a connection to the database may take",
    why="While the database's host is away, each request and each task waits for minutes, until the"
    " operating system gives up.",
    remedy='Set OPTIONS["connect_timeout"] of the ledger\'s database to 5 or so.',
)
def _waits_for_the_host(project: Project) -> Iterator[str]:
    options = project.ledger.get("OPTIONS", {})
    is_stated = options.get("connect_timeout") or "service" in options
    if project.vendor in {"postgresql", "mysql"} and not is_stated:
        yield f"No connect_timeout in OPTIONS of {project.alias!r}."


@ledger.check(
    "D705",
    Severity.WARNING,
    finds="`ATOMIC_REQUESTS` on, and guarded tasks without `reserve`",
    why="Their messages go out before the request's transaction commits: a worker may not find the rows, and"
    " runs for a request that is rolled back.",
    remedy="Give the tasks reserve=True, or send with delay_on_commit().",
)
def _sends_before_the_commit(project: Project) -> Iterator[str]:
    early = [task for task in project.guarded if not task.idempotency_policy.reserve]
    if early:
        for alias, database in django_settings.DATABASES.items():
            if database.get("ATOMIC_REQUESTS"):
                yield f"ATOMIC_REQUESTS of {alias!r} is on, and {len(early)} guarded tasks are not reserved."


@postgresql.check(
    "D501",
    Severity.WARNING,
    finds="another isolation level than READ COMMITTED for the ledger's database",
    why="When two claims meet, they raise serialization errors and run again, where one would only wait.",
    remedy="Take isolation_level out of OPTIONS; ask for it in the transactions that need it.",
)
def _is_isolated(project: Project) -> Iterator[str]:
    level = project.ledger.get("OPTIONS", {}).get("isolation_level")
    if project.vendor != "postgresql" or level is None:
        return
    from django.db.backends.postgresql.psycopg_any import IsolationLevel  # noqa: PLC0415  needs the driver

    if level not in {IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED}:
        yield f"isolation_level of {project.alias!r} is {level!r}."


@mysql.check(
    "D601",
    Severity.ERROR,
    finds="another `isolation_level` than READ COMMITTED for the ledger's database",
    why="The ledger refuses to work there: each guarded task raises.",
    remedy="Take isolation_level out of OPTIONS: READ COMMITTED is Django's default.",
)
def _is_repeatable(project: Project) -> Iterator[str]:
    level = project.ledger.get("OPTIONS", {}).get("isolation_level", "read committed")
    if project.vendor == "mysql" and str(level).lower() != "read committed":
        yield f"isolation_level of {project.alias!r} is {level!r}."


@mysql.check(
    "D602",
    Severity.ERROR,
    finds="a storage engine without transactions as the default (`init_command`)",
    why="The tables that migrate then makes have no rollback: the writes of a failed body stay.",
    remedy="Take MyISAM or Aria out of init_command, and convert the tables to InnoDB.",
)
def _makes_no_transactions(project: Project) -> Iterator[str]:
    command = str(project.ledger.get("OPTIONS", {}).get("init_command", "")).lower()
    if project.vendor == "mysql" and any(name in command for name in ("myisam", "aria")):
        yield f"init_command of {project.alias!r} names MyISAM or Aria."
