"""What a task says to its session ends with the task, also on a connection that is kept."""

from __future__ import annotations

from typing import Any

import pytest
from celery.contrib.django.task import DjangoTask
from django.db import connections

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
    pytest.mark.usefixtures("watching"),
]

POSTGRESQL = {
    "search path": "SET search_path = pg_catalog",
    "search path by function": "SELECT set_config('search_path', 'pg_catalog', false)",
    "role": "SET ROLE pg_monitor",
    "isolation": "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "read only": "SET default_transaction_read_only = on",
    "time limit": "SET statement_timeout = 1",
    "time zone": "SET TIME ZONE 'Asia/Kathmandu'",
    "lock": "SELECT pg_advisory_lock(7)",
    "temporary table": "CREATE TEMP TABLE {key} (LIKE {key})",
}
MYSQL = {
    "isolation": "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "read only": "SET SESSION TRANSACTION READ ONLY",
    "time zone": "SET time_zone = '+05:45'",
    "sql mode": "SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES'",
    "lock": "SELECT GET_LOCK('seven', 0)",
    "tables": "LOCK TABLES sample_effect WRITE",
    "temporary table": "CREATE TEMPORARY TABLE {key} (digest char(32))",
    "autocommit": "SET autocommit = 0",
}
KEY = "django_idempotent_tasks_idempotencykey"


def saying(till: Till, alias: str, statement: str, *, guarded: bool) -> Any:
    """A task that says something to its session."""

    def say(order: int) -> int:
        with connections[alias].cursor() as cursor:
            cursor.execute(statement.format(key=KEY))
        return order

    if guarded:
        return till.guarded(mode="leased", bind=False)(say)
    return till.task(base=DjangoTask, shared=False, name=till.new_name())(say)


def session_ends_with_its_task(till: Till, shop: Counter, statement: str, *, guarded: bool) -> None:
    """Let a task say it; it succeeds, and the calls after it as well, on another session."""
    assert till.deliver(till.seller(shop, mode="leased"), 1).result == {"order": 1}
    kept = connections[shop.alias].connection
    assert till.deliver(saying(till, shop.alias, statement, guarded=guarded), 2, id="B").result == 2
    assert connections[shop.alias].connection is not kept
    for number, mode in enumerate(["leased", "atomic"], start=3):
        end = till.deliver(till.seller(shop, mode=mode), number, id=f"C{number}")
        assert end.result == {"order": number}
    assert shop.effects == ["sold"] * 3
    rows = IdempotencyKey.objects.using(shop.alias)
    assert set(rows.values_list("state", flat=True)) == {State.SUCCEEDED}


each_kind = pytest.mark.parametrize("guarded", [True, False], ids=["leased", "unguarded"])


@each_kind
@pytest.mark.parametrize("alias", ["default"], indirect=True)
@pytest.mark.parametrize("what", POSTGRESQL)
def test_what_is_said_to_a_session_ends_with_the_task(
    till: Till, shop: Counter, what: str, *, guarded: bool
) -> None:
    session_ends_with_its_task(till, shop, POSTGRESQL[what], guarded=guarded)


def test_a_task_that_says_nothing_that_lasts_keeps_its_connection(till: Till, shop: Counter) -> None:
    task = till.seller(shop, mode="leased")
    till.deliver(task, 1)
    kept = connections[shop.alias].connection
    till.deliver(task, 2, id="B")
    till.deliver(till.seller(shop), 3, id="C")
    assert connections[shop.alias].connection is kept


@pytest.mark.parametrize("alias", ["default"], indirect=True)
def test_a_search_path_is_the_projects_own_where_our_statements_name_the_schema(
    till: Till, shop: Counter, settings: Any
) -> None:
    settings.IDEMPOTENT_TASKS = {"DATABASE": shop.alias, "SCHEMA": "public"}
    task = saying(till, shop.alias, "SET search_path = public", guarded=True)
    till.deliver(task, 1)
    kept = connections[shop.alias].connection
    assert till.deliver(task, 2, id="B").result == 2
    assert connections[shop.alias].connection is kept
