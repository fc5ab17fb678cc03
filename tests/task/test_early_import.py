"""A project's celery.py imports the task class before Django's apps are loaded."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys

import pytest

needs_mypy = pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")


@pytest.mark.parametrize(
    "names",
    ["IdempotentTask, IdempotentTaskMixin, TASK_ID", "current, PermanentError, Category"],
)
def test_the_public_names_load_before_django_is_set_up(names: str) -> None:
    script = (
        f"from django_idempotent_tasks import {names}\n"
        "import django_idempotent_tasks as package, django.apps\n"
        "assert not django.apps.apps.ready\n"
        "assert set(package.__all__) >= {n.strip() for n in %r.split(',')}\n" % names
    )
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)


def test_every_public_name_exists_before_django_is_set_up_or_waits_for_it_and_after() -> None:
    """A name that needs the models says so as Django does; no other error, and none afterwards."""
    script = (
        "import django_idempotent_tasks as package, django\n"
        "from django.core.exceptions import AppRegistryNotReady, ImproperlyConfigured\n"
        "early = []\n"
        "for name in package.__all__:\n"
        "    try: getattr(package, name)\n"
        "    except (AppRegistryNotReady, ImproperlyConfigured): early.append(name)\n"
        "django.setup()\n"
        "assert [name for name in package.__all__ if getattr(package, name, None) is None] == []\n"
        "print(*early)\n"
    )
    environ = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.support.settings"}
    run = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == [
        "Batch",
        "dead_letter",
        "get_batch",
        "get_key",
        "submit_batch",
    ]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("exceptions", "DuplicateTask IdempotencyError LeaseLost"),
        ("signals", "dead_lettered key_completed duplicate_detected leader_changed"),
        ("states", "State Reason Category"),
        ("models", "IdempotencyKey FailedJob DeadLetter RedriveOperation HourlyCount BeatCursor"),
        ("http", "submit_response asubmit_response JobView JobStatusView JobCancelView job_document"),
        ("urls", "urlpatterns"),
        ("schedulers", "SingleInstanceDatabaseScheduler"),
        ("results", "DatabaseBackend"),
        pytest.param("mypy_plugin", "plugin", marks=needs_mypy),
    ],
)
def test_a_documented_path_has_its_names(path: str, names: str) -> None:
    module = importlib.import_module(f"django_idempotent_tasks.{path}")
    assert [name for name in names.split() if not hasattr(module, name)] == []


def test_no_other_public_name_is_there() -> None:
    import django_idempotent_tasks as package  # noqa: PLC0415  the package itself is the subject

    with pytest.raises(AttributeError, match="no attribute 'charge'"):
        package.charge  # noqa: B018


def test_an_app_that_is_not_installed_is_named_with_the_remedy() -> None:
    script = (
        "from django.conf import settings; settings.configure(); import django; django.setup()\n"
        "from django_idempotent_tasks import models\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "Add 'django_idempotent_tasks' to INSTALLED_APPS and run 'manage.py migrate'" in ended.stderr
