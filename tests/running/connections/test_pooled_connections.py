"""With the pool of Django on PostgreSQL: nobody who gets a connection next has what a task said to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery.contrib.django.task import DjangoTask
from django.db import connections

from django_idempotent_tasks.worker.hooks import keep_connections, spare_pools
from tests.running.connections.test_kept_connections import fixup
from tests.running.delivery.heard import told
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

__all__ = ["fixup"]

pytest.importorskip("psycopg_pool")
pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
]


@pytest.fixture
def pooled(monkeypatch: pytest.MonkeyPatch, postgresql: Counter) -> Iterator[Counter]:
    """A pool with one connection."""
    of_one = {"pool": {"min_size": 1, "max_size": 1, "timeout": 10}}
    connection: Any = connections["default"]
    options = {**connections.settings["default"].get("OPTIONS", {}), **of_one}
    connection.close()
    monkeypatch.setitem(connections.settings["default"], "OPTIONS", options)
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)
    yield postgresql
    connection.close()
    connection.close_pool()


@pytest.mark.usefixtures("pooled", "fixup", "watching")
@pytest.mark.parametrize("alias", ["default"], indirect=True)
@pytest.mark.parametrize("is_kept", [False, True], ids=["closed", "kept"])
@pytest.mark.parametrize("kind", ["unguarded", "leased", "atomic"])
def test_a_session_that_a_task_has_altered_does_not_go_back_to_its_pool(
    till: Till, kind: str, *, is_kept: bool
) -> None:
    if is_kept:
        keep_connections(till)
    spare_pools(till)

    def say(_task: Any, order: int) -> int:
        with connections["default"].cursor() as cursor:
            cursor.execute("SET statement_timeout = 77")
        return order

    if kind == "unguarded":
        task = till.task(base=DjangoTask, bind=True, shared=False, name=till.new_name())(say)
    else:
        task = till.guarded(mode=kind)(say)
    assert till.deliver(task, 7).result == 7
    assert connections["default"].connection is None
    with connections["default"].cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        assert cursor.fetchone() != ("77ms",)


class Fairy:
    """What SQLAlchemy's pool gives: it passes a driver's connection on, and keeps other attributes."""

    def __init__(self, driver: Any) -> None:
        vars(self)["driver"] = driver

    def __getattr__(self, name: str) -> Any:
        return getattr(self.driver, name)

    def __setattr__(self, name: str, value: object) -> None:
        if name == "autocommit":  # by Django; a backend with such a pool does it in its own way
            self.driver.autocommit = value
        else:
            vars(self)[name] = value


def test_a_pool_of_another_package_begins_a_transaction_once(till: Till, postgresql: Counter) -> None:
    connection: Any = connections["default"]
    connection.ensure_connection()
    connection.connection = Fairy(connection.connection)
    try:
        heard = told(lambda: till.deliver(till.seller(postgresql), 7))
        assert heard.statements.count("BEGIN") == 1
        assert len(postgresql.effects) == 1
    finally:
        connection.close()
