"""Reads the ledger's database for the doctor: what stands in it, and what its server is set to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from celery import Celery
from django.apps import apps
from django.db.migrations.loader import MigrationLoader

from ...beat.checks import BEAT_APP
from ...beat.overview import enabled
from ...ledger.moments import database_now, exact
from ...ledger.stores import LedgerStore
from ...models import IdempotencyKey
from ..findings import findings
from ..status import look
from .ledger_state import LedgerState

_APP = "django_idempotent_tasks"
#: How many periodic tasks are looked at.
ENTRIES = 1000

#: The settings of PostgreSQL that are judged, for the role of this connection.
_POSTGRESQL = (
    "autovacuum",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "fsync",
    "full_page_writes",
    "idle_in_transaction_session_timeout",
    "max_connections",
    "synchronous_commit",
)
_MYSQL = ("innodb_flush_log_at_trx_commit", "max_connections", "read_only", "version", "wait_timeout")


def ledger_read(store: LedgerStore, app: Celery) -> LedgerState:
    """What stands in the ledger; raises what the database raises, unless migrations explain it."""
    unapplied = _unapplied(store)
    if unapplied:
        return LedgerState(unapplied)
    return LedgerState(
        skew=_skew(store),
        told={each.name: each.sentence for each in findings(look(store))},
        unknown=_unknown(store.connection.alias, app),
    )


def server_of(store: LedgerStore) -> dict[str, Any]:
    """What the server of the ledger's database is set to, by the names of its settings."""
    return _postgresql(store) if store.connection.vendor == "postgresql" else _mysql(store)


def _unapplied(store: LedgerStore) -> list[str]:
    loader = MigrationLoader(store.connection)
    applied = set(loader.applied_migrations or ())
    return sorted(name for app, name in loader.graph.nodes if app == _APP and (app, name) not in applied)


def _skew(store: LedgerStore) -> float:
    """By how many seconds the database's clock is ahead of this host's, in the middle of the question."""
    began = datetime.now(UTC)
    theirs = exact(database_now(store))
    ours = began + (datetime.now(UTC) - began) / 2
    return (theirs - ours) / timedelta(seconds=1)


def _unknown(alias: str, app: Celery) -> dict[str, str]:
    if not apps.is_installed(BEAT_APP):
        return {}
    entries = enabled(alias).exclude(task__in=list(app.tasks)).order_by("pk")
    return dict(entries.values_list("name", "task")[:ENTRIES])


def _postgresql(store: LedgerStore) -> dict[str, Any]:
    with store.connection.cursor() as cursor:
        cursor.execute("SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", [list(_POSTGRESQL)])
        found: dict[str, Any] = dict(cursor.fetchall())
        cursor.execute("SELECT pg_is_in_recovery(), (SELECT count(*) FROM pg_stat_activity)")
        found["in_recovery"], found["connections"] = cursor.fetchone()
        cursor.execute(
            "SELECT n_dead_tup, n_live_tup FROM pg_stat_user_tables WHERE relname = %s ORDER BY 2 DESC LIMIT"
            " 1",
            [IdempotencyKey._meta.db_table],
        )
        found["dead_rows"], found["living_rows"] = cursor.fetchone() or (0, 0)
    return found


def _mysql(store: LedgerStore) -> dict[str, Any]:
    kept = store.connection.settings_dict
    found: dict[str, Any] = {
        "conn_max_age": kept["CONN_MAX_AGE"],
        "conn_health_checks": kept["CONN_HEALTH_CHECKS"],
    }
    with store.connection.cursor() as cursor:
        cursor.execute("SELECT " + ", ".join(f"@@global.{name}" for name in _MYSQL))
        found |= dict(zip(_MYSQL, cursor.fetchone(), strict=True))
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Threads_connected'")
        found["connections"] = int((cursor.fetchone() or ("", 0))[1])
        cursor.execute(
            "SELECT table_name, engine FROM information_schema.tables"
            " WHERE table_schema = database() AND table_name LIKE %s AND engine IS NOT NULL",
            [f"{_APP}\\_%"],
        )
        found["engines"] = dict(cursor.fetchall())
    return found
