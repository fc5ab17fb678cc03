"""Starts PostgreSQL and Valkey before Django is set up, and stops them when pytest ends.

``DATABASE_URL`` and ``CELERY_BROKER_URL`` in the environment replace them.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from example_project.servers import ensure_servers, fresh_directory

if TYPE_CHECKING:
    from collections.abc import Generator


# A wrapper runs before pytest-django's implementation of this hook, which reads the settings.
@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, Any, Any]:
    """Start the servers, unless no test will run or a pytest-xdist controller has started them."""
    options = early_config.known_args_namespace
    idle = options.help or options.version or options.collectonly
    if not idle and "PYTEST_XDIST_WORKER" not in os.environ:
        _start(early_config)
    return (yield)


def _start(config: pytest.Config) -> None:
    files = fresh_directory("tests")
    config.add_cleanup(lambda: shutil.rmtree(files, ignore_errors=True))
    servers = ensure_servers(durable=False)
    config.add_cleanup(servers.stop)
    os.environ.update(servers.environment, SQLITE_PATH=str(files / "ledger.sqlite3"))


def pytest_report_header() -> str:
    """Say which servers the tests talk to."""
    addresses = [
        os.environ.get(name, "none").rpartition("@")[2] for name in ("DATABASE_URL", "CELERY_BROKER_URL")
    ]
    return f"database: {addresses[0]}, broker: {addresses[1]}"
