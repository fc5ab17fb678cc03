"""The admin under Django's own looks and under themes that replace its templates, each in its own process.

A theme puts its own site in the place of Django's when the apps are loaded, so that no process has two.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.workers.processes import ROOT

pytest.importorskip("django_celery_beat")

#: Those that are there wherever the extra ``themes`` is installed.
THEMES = {"django": "django", "unfold": "unfold", "jazzmin": "jazzmin"}


@pytest.mark.thorough
@pytest.mark.parametrize("theme", THEMES)
def test_every_page_of_the_admin_answers_under(theme: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(THEMES[theme]) is None:
        pytest.skip(f"{theme} is not installed: pip install 'django-idempotent-tasks[themes]'")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        "THEME": theme,
        "DATABASE_URL": f"sqlite:///{tmp_path / 'theme.sqlite3'}",
        "MYSQL_URL": "",
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests/admin/themes/walk.py",
        "--ds=tests.admin.themes.settings",
        "-q",
    ]
    told = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-n", "0"],
        check=False,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stdout[-6000:] + told.stderr[-2000:]
    assert "4 passed" in told.stdout
