"""What ``manage.py check`` says about bad options and settings."""

from __future__ import annotations

from typing import Any

from celery import current_app
from django.core.checks import run_checks

from django_idempotent_tasks import IdempotentTask


def _found() -> dict[str, str]:
    return {str(message.id): str(message.msg) for message in run_checks(tags=["idempotent_tasks"])}


def test_nothing_is_reported_where_nothing_is_wrong() -> None:
    assert _found() == {}


def test_a_bad_setting_is_e002(settings: Any) -> None:
    settings.IDEMPOTENT_TASKS = {"LEESE": 5}
    assert "Did you mean 'LEASE'?" in _found()["django_idempotent_tasks.E002"]


def test_a_bad_option_is_e001() -> None:
    @current_app.task(base=IdempotentTask, shared=False, name="checks.bad", key="nope")
    def bad(order_id: int) -> int:
        return order_id

    try:
        assert "'nope'" in _found()["django_idempotent_tasks.E001"]
    finally:
        current_app.tasks.unregister("checks.bad")
