"""Finds what runs on this machine, runs the tests that need it, and says what it leaves out.

Also the tests with libraries that only they need, the extras ``interop`` and ``deploy``.

``MYSQL_URL``, ``RABBITMQ_URL`` and ``POSTGRESQL_URL`` name MariaDB (or MySQL), RabbitMQ and a PostgreSQL of
another version than the tests' own; else they are looked for at their ports. A service that is missing is
no failure.
"""

from __future__ import annotations

import getpass
import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any
from urllib.parse import unquote, urlsplit

import psycopg
from kombu import Connection

from example_project.servers import start_postgres
from example_project.servers.pgbouncer import find_pgbouncer, start_pgbouncer

MYSQL = "mysql://root@127.0.0.1:3306/idem"
RABBITMQ = "amqp://guest:guest@127.0.0.1:5672//"

POSTGRESQL = "postgresql://{user}@127.0.0.1:5432/postgres"

MYSQL_TESTS = (
    "tests/ledger/stores/test_mysql.py",
    "tests/races/test_mysql_batches.py",
    "tests/races/test_mysql_claimers.py",
    "tests/races/test_mysql_decisions.py",
    "tests/races/test_mysql_many.py",
    "tests/races/test_mysql_meetings.py",
    "tests/results/test_meetings.py",
    "tests/results/test_troubles.py",
    "tests/operations/test_batch_counts.py",
    "tests/operations/test_batch_decisions.py",
    "tests/management/test_batches_command.py",
    "tests/management/test_command_erase.py",
    "tests/management/test_dead_letters_decided.py",
    "tests/management/test_dead_letters_list.py",
    "tests/management/test_dead_letters_many.py",
    "tests/management/test_dead_letters_show.py",
    "tests/management/test_failed_jobs_command.py",
    "tests/services/mysql",
)
RABBITMQ_TESTS = (
    "tests/deaths/leased/test_rabbitmq.py",
    "tests/processes/reserved/test_rabbitmq_confirms.py",
    "tests/services/rabbitmq",
)
BEAT_TESTS = tuple(
    f"tests/beat/test_{name}.py"
    for name in (
        *(
            "ticks",
            "lead",
            "edits",
            "misfires",
            "outages",
            "trouble",
            "overview",
            "asked",
            "unreadable_entries",
            "local_times",
        ),
    )
)
#: What takes many minutes of those is marked: ``make test-all`` runs it where RABBITMQ_URL is set. Of files
#: with a test for each database, the others are in ``make test``.
CHOICE = ("-m", "not long", "-k", "mysql or services or rabbitmq")
#: On another PostgreSQL, by whatever leads there.
POSTGRESQL_TESTS = ("tests/ledger/stores/test_contract.py", "tests/ledger/stores/test_postgresql.py")
#: Through PgBouncer. Other races look at what a session has, and there a client has none.
POOLED_TESTS = (
    "tests/ledger/stores/test_contract.py",
    "tests/races/test_many_claimers.py",
    "tests/races/test_atomic_claimers.py",
)
PGBOUNCER_TESTS = ("tests/services/pgbouncer",)

#: With libraries that stamp what Celery sends, each by a module of it.
INTEROP_TESTS = ("tests/services/interop", "tests/drf")
INSTRUMENTS = (
    "django_guid",
    "drf_spectacular",
    "django_structlog",
    "django_tenants",
    "opentelemetry",
    "sentry_sdk",
    "tenant_schemas_celery",
)

#: With what reads the files of deploy/.
DEPLOY_TESTS = ("tests/project/deploy/test_tools.py",)
READERS = ("check_jsonschema", "kubernetes_validate")

#: Of pytest, where it has found no test.
NONE_CHOSEN = 5

#: Seconds that a service has to answer.
PATIENCE = 5.0
#: For who builds a driver against a library, and for who cannot.
HEADERS = "libmariadb-dev or libmysqlclient-dev, and a compiler"


def say(text: str) -> None:
    """Say it before pytest says anything."""
    print(f"test-services: {text}", flush=True)


def is_answering(url: str) -> bool:
    """Whether somebody listens where this URL points to."""
    place = urlsplit(url)
    with suppress(OSError), socket.create_connection((place.hostname or "", place.port or 0), PATIENCE):
        return True
    return False


def has_driver() -> bool:
    """Whether mysqlclient is there, or can be installed."""
    if importlib.util.find_spec("MySQLdb"):
        return True
    say("installing mysqlclient")
    command = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "-e", ".[mysql]"]
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0


def mysql_problem(url: str) -> str:
    """Why nothing can be shown on this server, or "" ."""
    if not has_driver():
        return f"mysqlclient cannot be installed, which takes {HEADERS}"
    place, driver = urlsplit(url), import_module("MySQLdb")
    account = {"user": unquote(place.username or ""), "password": unquote(place.password or "")}
    try:
        driver.connect(host=place.hostname, port=place.port or 3306, connect_timeout=int(PATIENCE), **account)
    except driver.Error as error:
        return f"it answers {error}"
    return ""


def rabbitmq_problem(url: str) -> str:
    """Why nothing can be shown on this broker, or "" ."""
    try:
        with Connection(url, connect_timeout=PATIENCE) as connection:
            connection.connect()
    except Exception as error:  # noqa: BLE001  whatever the driver says
        return f"it answers {error!r}"
    return ""


def postgresql_problem(url: str) -> str:
    """Why nothing can be shown on this server, or "" ."""
    try:
        with psycopg.connect(url, connect_timeout=int(PATIENCE)) as connection:
            row = connection.execute(
                "SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = user"
            ).fetchone()
    except psycopg.Error as error:
        return f"it answers {error}"
    return "" if row and row[0] else "its account may not create databases"


def has_pgbouncer() -> bool:
    """Whether PgBouncer is there; says where it comes from when it is not."""
    if find_pgbouncer():
        return True
    say("SKIPPED PgBouncer: it is not installed (apt-get install pgbouncer)")
    return False


def found(name: str, variable: str, usual: str, problem: Any) -> Iterator[str]:
    """The URL of a service that can be used; says what was found."""
    url = os.environ.get(variable) or usual
    shown = url.rpartition("@")[2]
    if variable not in os.environ and not is_answering(url):
        say(f"SKIPPED {name}: {variable} is not set, and nothing listens on {shown}")
    elif why := problem(url):
        say(f"SKIPPED {name} on {shown}: {why}")
    else:
        say(f"{name} on {shown}")
        yield url


def run(tests: Sequence[str], words: list[str], **environment: str) -> int:
    """Run tests in an environment; pytest's exit code, 0 where words chose none of them."""
    command = [sys.executable, "-m", "pytest", *tests, *words]
    code = subprocess.run(command, check=False, env={**os.environ, **environment}).returncode
    return 0 if code == NONE_CHOSEN else code


def run_services(words: list[str]) -> int:
    """Run what needs MariaDB and RabbitMQ beside the tests' own servers."""
    tests: list[str] = []
    for url in found("MariaDB or MySQL", "MYSQL_URL", MYSQL, mysql_problem):
        os.environ["MYSQL_URL"] = url
        tests += MYSQL_TESTS
    for url in found("RabbitMQ", "RABBITMQ_URL", RABBITMQ, rabbitmq_problem):
        os.environ["RABBITMQ_URL"] = url
        tests += RABBITMQ_TESTS
    if has_pgbouncer():
        tests += PGBOUNCER_TESTS
    return run(tests, [*CHOICE, *words]) if tests else 0


def run_pooled(words: list[str]) -> int:
    """Run the contract and races on the tests' own PostgreSQL through PgBouncer."""
    if not find_pgbouncer():
        return 0
    with start_postgres(durable=False) as server, start_pgbouncer(server.url, pool_size=20) as pooler:
        say("PgBouncer in transaction mode")
        # The test database stays: the pooler's connections keep it from being dropped.
        # In transaction mode it keeps no prepared statements.
        chosen = ["-k", "not sqlite and not PreparedStatements", "--create-db", "--reuse-db", *words]
        return run(POOLED_TESTS, chosen, DATABASE_URL=pooler.url)


def run_postgresql(words: list[str]) -> int:
    """Run the contract on a PostgreSQL that is not the tests' own."""
    usual = POSTGRESQL.format(user=getpass.getuser())
    chosen, codes = ["-m", "not slow", "-k", "not sqlite", *words], []
    for url in found("PostgreSQL", "POSTGRESQL_URL", usual, postgresql_problem):
        # A name that no other run has; Django makes and drops the database test_<name> only.
        own = urlsplit(url)._replace(path=f"/idem_{os.getpid()}").geturl()
        codes.append(run(POSTGRESQL_TESTS, chosen, DATABASE_URL=own))
    return max(codes, default=0)


def run_beat(words: list[str]) -> int:
    """Run the ticks of beat with MariaDB or MySQL as the only database."""
    url = os.environ.get("MYSQL_URL")
    if not url or importlib.util.find_spec("django_celery_beat") is None:
        return 0
    return run(BEAT_TESTS, words, DATABASE_URL=url, MYSQL_URL="")


def has_extra(name: str, modules: Sequence[str]) -> bool:
    """Whether an extra is there, by what it brings, or can be installed."""
    if all(map(importlib.util.find_spec, modules)):
        return True
    say(f"installing the extra {name}")
    quietly = ("-qq", "--disable-pip-version-check")
    command = [sys.executable, "-m", "pip", "install", *quietly, "-e", f".[{name}]"]
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0


def run_interop(words: list[str]) -> int:
    """Run what shows that the stamps of other libraries reach a worker."""
    if not has_extra("interop", INSTRUMENTS):
        say("SKIPPED tenant-schemas-celery, Sentry, OpenTelemetry, structlog, django-guid: not installable")
        return 0
    return run(INTEROP_TESTS, words)


def run_deploy(words: list[str]) -> int:
    """Let the programs that read the files of deploy/ read them."""
    if not has_extra("deploy", READERS):
        say("SKIPPED the schemas of Kubernetes and Compose: not installable")
    return run(DEPLOY_TESTS, words)


PARTS = (run_services, run_beat, run_pooled, run_postgresql, run_interop, run_deploy)


def main(words: list[str]) -> int:
    """Run what can be run; the worst of pytest's exit codes."""
    return max(part(words) for part in PARTS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
