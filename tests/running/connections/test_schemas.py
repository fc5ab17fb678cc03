"""Tenants with a schema each: the ledger is one, wherever a body or a caller points the search path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.checks import run_checks
from django.db import connection, transaction

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.sweep import sweep_once
from tests.support.till import Counter, Till

TABLES = ("idempotencykey", "answeredcall", "duplicateattempt", "leader")


def point_at(path: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SET search_path TO {path}")


@pytest.fixture
def ledger(postgresql: Counter) -> Iterator[Counter]:
    """A tenant's schema beside the public one."""
    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA IF EXISTS acme CASCADE")
        cursor.execute("CREATE SCHEMA acme")
    yield postgresql
    point_at("DEFAULT")
    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA acme CASCADE")


@pytest.fixture(params=["acme, public", "acme", "a ledger in acme as well"])
def path(request: pytest.FixtureRequest, ledger: Counter, settings: Any) -> str:  # noqa: ARG001
    """Where a tenant's connection looks for tables."""
    settings.IDEMPOTENT_TASKS = {"SCHEMA": "public"}
    if request.param in {"acme", "acme, public"}:
        return str(request.param)
    give_acme_a_ledger()
    return "acme, public"


def give_acme_a_ledger() -> None:
    with connection.cursor() as cursor:
        for name in TABLES:
            table = f"django_idempotent_tasks_{name}"
            cursor.execute(f"CREATE TABLE acme.{table} (LIKE public.{table} INCLUDING ALL)")


@pytest.mark.parametrize("mode", ["leased", "atomic"])
def test_a_body_that_changes_the_search_path_completes_in_the_shared_ledger(
    till: Till, ledger: Counter, path: str, mode: str
) -> None:
    @till.guarded(mode=mode)
    def sell(self: Any, order: int) -> int:
        ledger.sell(self)
        point_at(path)
        return order

    assert till.deliver(sell, 7).result == 7
    point_at("DEFAULT")
    assert (ledger.row.state, ledger.row.attempts, ledger.effects) == (State.SUCCEEDED, 1, [""])
    assert till.deliver(sell, 7, id="B").result["reason"] == "already_completed"


def test_complete_in_a_tenant_s_schema_commits_with_the_shared_key(
    till: Till, ledger: Counter, path: str
) -> None:
    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:
        with self.idempotency.complete() as done:
            ledger.sell(self)
            point_at(path)
            done.result = order

    assert till.deliver(sell, 7).result == 7
    point_at("DEFAULT")
    assert (ledger.row.state, ledger.runs) == (State.SUCCEEDED, 1)


def test_a_caller_in_a_tenant_s_schema_reserves_in_the_shared_ledger_and_the_sweeper_sends_it(
    till: Till, ledger: Counter, path: str
) -> None:
    sell = till.seller(ledger, mode="leased", reserve=True)
    point_at(path)
    with transaction.atomic():
        first = sell.apply_async((7,), scope="acme", countdown=600)
        again = sell.apply_async((7,), scope="acme")
    assert (again.id, again.duplicate) == (first.id, True)
    assert sell.apply_async((7,), scope="other", countdown=600).duplicate is False
    point_at("DEFAULT")
    assert set(IdempotencyKey.objects.values_list("scope", flat=True)) == {"acme", "other"}
    IdempotencyKey.objects.filter(scope="acme").update(due_at="2026-01-01T00:00Z")
    with get_store().side_connection() as store:
        sweep_once(till, store)
    assert [sent.options["task_id"] for sent in till.sent] == [first.id]
    assert till.deliver_sent(sell).result == {"order": 7}


@pytest.mark.parametrize("mode", ["leased", "atomic"])
def test_without_the_setting_a_body_that_leaves_the_ledger_s_schema_never_completes_elsewhere(
    till: Till, ledger: Counter, mode: str
) -> None:
    give_acme_a_ledger()

    @till.guarded(mode=mode)
    def sell(self: Any, order: int) -> int:  # noqa: ARG001
        point_at("acme, public")
        return order

    assert till.deliver(sell, 7).error is not None
    point_at("DEFAULT")
    assert ledger.row.state != State.SUCCEEDED


def test_a_ledger_for_each_tenant_is_w005(settings: Any) -> None:
    def found() -> list[str | None]:
        return [each.id for each in run_checks(tags=["idempotent_tasks"]) if str(each.id).endswith("W007")]

    settings.TENANT_APPS = ["shop"]
    assert found() == []
    settings.TENANT_APPS = ["shop", "django_idempotent_tasks"]
    assert len(found()) == 1
    settings.IDEMPOTENT_TASKS = {"SCHEMA": "public"}
    assert found() == []


@pytest.mark.parametrize("wrong", ["", "a-b", 'a"b', "a.b", 7, "x" * 64])
def test_a_schema_that_is_no_plain_name_is_an_error(settings: Any, wrong: object) -> None:
    settings.IDEMPOTENT_TASKS = {"SCHEMA": wrong}
    errors = [each.msg for each in run_checks(tags=["idempotent_tasks"]) if str(each.id).endswith("E002")]
    assert "must be the name of a PostgreSQL schema" in errors[0]
