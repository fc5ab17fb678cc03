"""Programs and workers that use a library, on a database and a broker of their own."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.workers.processes import ROOT, Worker
from tests.support.workers.site import Site
from tests.support.workers.sites import _clean, key, own_site, site  # noqa: F401  the same surroundings

REPUBLISH_AFTER = 3


class Project:
    """One way to set Django and Celery up, on a site."""

    def __init__(self, site: Site, settings: str, app: str) -> None:  # noqa: F811
        self.site = site
        self._app = app
        self._variables = {
            "DJANGO_SETTINGS_MODULE": settings,
            "PROJ_IDEMPOTENT_TASKS": json.dumps({"REPUBLISH_AFTER": REPUBLISH_AFTER}),
            "PROJ_RESULT_BACKEND": "disabled://",
        }

    def run(self, module: str, call: str) -> str:
        """Call something of a module in a process of its own; what it says."""
        text = f"import django\ndjango.setup()\nfrom {module} import *\n{call}"
        environment = self.site.worker("program", **self._variables).environment
        done = subprocess.run(
            [sys.executable, "-c", text],
            cwd=ROOT,
            env={**os.environ, **environment},
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def working(self, *arguments: str) -> Iterator[Worker]:
        """A worker, which is the first one that sweeps."""
        worker = self.site.worker("worker", "--concurrency", "1", *arguments, **self._variables)
        worker.app = self._app
        try:
            yield worker.start()
        finally:
            worker.kill()


@pytest.fixture(autouse=True)
def _says_what_is_missing(request: pytest.FixtureRequest) -> None:
    """Looked for and not imported: they patch Celery."""
    for name in request.module.NEEDS:
        if not is_installed(name):
            pytest.skip(f"{name} is not installed: pip install -e '.[interop]'")


def is_installed(name: str) -> bool:
    """Whether a module can be imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
