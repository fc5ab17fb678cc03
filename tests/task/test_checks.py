"""What ``manage.py check`` says about bad options and settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery, current_app
from django.core.checks import run_checks
from django.db import connection, connections

from django_idempotent_tasks import IdempotentTask, checks
from django_idempotent_tasks.checks import missing_tables, problems
from django_idempotent_tasks.models import IdempotencyKey


def _found() -> dict[str, str]:
    found: dict[str, str] = {}
    for message in run_checks(tags=["idempotent_tasks"]):
        found[str(message.id)] = f"{found.get(str(message.id), '')}{message.msg}\n"
    return found


@pytest.fixture(autouse=True)
def _kept(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do as the checks ask, whatever tasks other tests have declared."""
    monkeypatch.setenv("CELERY_BROKER_URL", "amqp://")
    settings.IDEMPOTENT_TASKS = {"KEEP_CONNECTIONS": True}
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 60)


def test_nothing_is_reported_where_nothing_is_wrong() -> None:
    assert _found() == {}


@pytest.mark.skipif(connection.vendor == "sqlite", reason="a connection to SQLite costs little")
def test_a_connection_for_every_task_is_w002(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.IDEMPOTENT_TASKS = {}
    assert "before and after every task" in _found()["django_idempotent_tasks.W002"]
    settings.IDEMPOTENT_TASKS = {"KEEP_CONNECTIONS": True}
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)
    assert "keeps nothing" in _found()["django_idempotent_tasks.W002"]


@pytest.mark.parametrize(
    ("broker", "window", "timeout", "warns"),
    [
        ("redis://", 3600, None, False),
        ("redis://", 3599, None, True),
        ("redis://", 90_000, 100_000, True),
        ("amqp://", 60, 100_000, False),
    ],
)
def test_a_ledger_that_forgets_before_the_broker_does_is_w003(
    settings: Any, monkeypatch: pytest.MonkeyPatch, broker: str, window: int, timeout: int | None, warns: bool
) -> None:
    settings.IDEMPOTENT_TASKS |= {"REDELIVERY_WINDOW": window}
    monkeypatch.setenv("CELERY_BROKER_URL", broker)
    options = {} if timeout is None else {"visibility_timeout": timeout}
    monkeypatch.setitem(current_app.conf, "broker_transport_options", options)
    assert ("django_idempotent_tasks.W003" in _found()) is warns


@pytest.mark.parametrize(
    ("broker", "options", "warns"),
    [
        ("redis://", {"mode": "atomic"}, True),
        ("redis://", {"mode": "atomic", "reserve": True}, False),
        ("redis://", {}, False),
        ("amqp://", {"mode": "atomic"}, False),
    ],
)
def test_an_atomic_task_that_only_a_slow_broker_brings_back_is_w001(
    monkeypatch: pytest.MonkeyPatch, broker: str, options: dict[str, Any], warns: bool
) -> None:
    @current_app.task(base=IdempotentTask, shared=False, name="checks.atomic", **options)
    def charge(order_id: int) -> int:
        return order_id

    monkeypatch.setenv("CELERY_BROKER_URL", broker)  # which Celery prefers to its settings
    try:
        assert ("checks.atomic" in _found().get("django_idempotent_tasks.W001", "")) is warns
    finally:
        current_app.tasks.unregister("checks.atomic")


@pytest.mark.parametrize(
    ("backend", "warns"),
    [
        ("django-db", True),
        ("django_celery_results.backends:DatabaseBackend", True),
        ("django_celery_results.backends.database.DatabaseBackend", True),
        ("django_idempotent_tasks.results:DatabaseBackend", False),
        ("redis://", False),
        ("", False),
    ],
)
def test_a_result_backend_that_counts_parts_of_chords_twice_is_w004(
    monkeypatch: pytest.MonkeyPatch, backend: str, warns: bool
) -> None:
    monkeypatch.setenv("CELERY_RESULT_BACKEND", backend)  # which Celery prefers to its settings
    with monkeypatch.context() as nothing_guarded:
        nothing_guarded.setattr(checks, "_guarded", lambda _app: [])
        assert checks._miscounting(current_app) == []

    @current_app.task(base=IdempotentTask, shared=False, name="checks.part")
    def charge(order_id: int) -> int:
        return order_id

    try:
        assert ("django_idempotent_tasks.W004" in _found()) is warns
    finally:
        current_app.tasks.unregister("checks.part")


@pytest.mark.parametrize(
    ("broker", "options", "warns"),
    [
        ("amqp://", {"time_limit": 1800}, True),
        ("amqp://", {"time_limit": 1799}, False),
        ("amqp://", {"time_limit": 1800, "acks_late": False}, False),
        ("amqp://", {}, False),
        ("redis://", {"time_limit": 7200}, False),
    ],
)
def test_a_task_that_rabbitmq_may_not_wait_for_is_w005(
    monkeypatch: pytest.MonkeyPatch, broker: str, options: dict[str, Any], warns: bool
) -> None:
    @current_app.task(base=IdempotentTask, shared=False, name="checks.slow", **options)
    def render(film_id: int) -> int:
        return film_id

    monkeypatch.setenv("CELERY_BROKER_URL", broker)
    try:
        assert ("checks.slow" in _found().get("django_idempotent_tasks.W005", "")) is warns
    finally:
        current_app.tasks.unregister("checks.slow")


@pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"])
def test_a_ledger_without_tables_is_named_with_its_remedy() -> None:
    guarded = Celery("guarded", set_as_current=False)

    @guarded.task(base=IdempotentTask, shared=False)
    def charge(order_id: int) -> int:
        return order_id

    guarded.finalize(auto=True)
    assert missing_tables(guarded) == []
    table = IdempotencyKey._meta.db_table
    with connection.schema_editor() as editor:
        editor.alter_db_table(IdempotencyKey, table, "elsewhere")
    try:
        assert "manage.py migrate --database default" in missing_tables(guarded)[0]
        assert missing_tables(SimpleNamespace(tasks={})) == []
    finally:
        with connection.schema_editor() as editor:
            editor.alter_db_table(IdempotencyKey, "elsewhere", table)


def test_a_bad_setting_is_e002(settings: Any) -> None:
    settings.IDEMPOTENT_TASKS = {"LEESE": 5}
    assert "Did you mean 'LEASE'?" in _found()["django_idempotent_tasks.E002"]


@pytest.mark.parametrize("name", ["IDEMPOTENCY_TASKS", "IDEMPOTENT_TASK", "DJANGO_IDEMPOTENT_TASKS"])
def test_settings_under_a_name_that_nothing_reads_are_e002(settings: Any, name: str) -> None:
    setattr(settings, name, {"LEASE": 5})
    assert f"The settings have {name}, which" in _found()["django_idempotent_tasks.E002"]
    setattr(settings, name, "no dict")
    assert "django_idempotent_tasks.E002" not in _found()


def test_a_ledger_without_autocommit_is_e002_and_keeps_a_worker_from_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(connections.settings["default"], "AUTOCOMMIT", False)
    assert "AUTOCOMMIT: False" in _found()["django_idempotent_tasks.E002"]
    assert any("AUTOCOMMIT: False" in each for each in problems(current_app))


def test_a_bad_option_is_e001() -> None:
    @current_app.task(base=IdempotentTask, shared=False, name="checks.bad", key="nope")
    def bad(order_id: int) -> int:
        return order_id

    try:
        assert "'nope'" in _found()["django_idempotent_tasks.E001"]
    finally:
        current_app.tasks.unregister("checks.bad")
