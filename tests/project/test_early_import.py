"""A project's celery.py imports the task class before Django's apps are loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest


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


def test_every_public_name_exists() -> None:
    import django_idempotent_tasks as package  # noqa: PLC0415  the package itself is the subject

    assert [name for name in package.__all__ if getattr(package, name, None) is None] == []
    with pytest.raises(AttributeError, match="no attribute 'charge'"):
        package.charge  # noqa: B018


def test_an_app_that_is_not_installed_is_named_with_the_remedy() -> None:
    script = (
        "from django.conf import settings; settings.configure(); import django; django.setup()\n"
        "from django_idempotent_tasks import models\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "Add 'django_idempotent_tasks' to INSTALLED_APPS and run 'manage.py migrate'" in ended.stderr
