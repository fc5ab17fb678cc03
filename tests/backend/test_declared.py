"""A declared task is known to every Celery app, and a project without the app or the framework is told."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from celery import Celery

from tests.sample import tasks_of_django as sample
from tests.support.framework import task_backends


@pytest.mark.parametrize("finalized", [False, True])
def test_each_app_knows_the_task_with_its_options(finalized: bool) -> None:
    app = Celery("any", set_as_current=False)
    if finalized:
        app.finalize()
    charge: Any = app.tasks[sample.charge.module_path]
    assert charge.idempotency_error is None
    assert (charge.idempotency_policy.key_rules.key, charge.max_retries) == ("order", 2)
    assert charge.idempotency_policy.reserve
    app.close()


def test_a_project_without_the_app_is_e006(monkeypatch: pytest.MonkeyPatch) -> None:
    backend: Any = task_backends["default"]
    assert backend.check() == []
    monkeypatch.setattr("django.apps.apps.is_installed", lambda _name: False)
    (error,) = backend.check()
    assert (error.id, "INSTALLED_APPS" in error.msg) == ("django_idempotent_tasks.E006", True)


def test_without_the_framework_nothing_else_needs_it_and_the_backend_names_it() -> None:
    program = (
        "import sys; sys.modules['django_tasks'] = None\n"
        "import django; django.VERSION = (5, 2, 0, 'final', 0)\n"
        "import django_idempotent_tasks as ours; ours.idempotent(key='x')\n"
        "try: import django_idempotent_tasks.backend\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "On this Django install django-tasks" in done.stdout
