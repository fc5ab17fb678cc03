"""A host that vanishes in an atomic body, without a word to the database, gives its key up all the same."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from django.db import connections

from example_project.servers import Server, start_postgres
from tests.support.ledger.databases import migrated_database
from tests.support.network.street import Street, street
from tests.support.waiting import eventually
from tests.support.workers.journal import Journal

if TYPE_CHECKING:
    from pytest_django.plugin import DjangoDbBlocker

pytestmark = [pytest.mark.process, pytest.mark.slow]

#: What README promises, and some more for a machine that is busy.
BOUND = 20 + 3


@pytest.fixture
def way() -> Iterator[Street]:
    """The way to the host that vanishes."""
    with street() as way:
        yield way


@pytest.fixture
def server(way: Street, django_db_blocker: DjangoDbBlocker) -> Iterator[Server]:
    """A PostgreSQL server that the host reaches directly: a proxy would answer in its place."""
    with start_postgres(durable=False) as server:
        (hba,) = server.log.parent.glob("data/pg_hba.conf")
        with hba.open("a") as file:
            file.write("host all all 10.213.0.0/16 trust\n")
        addresses = server._command.index("listen_addresses=127.0.0.1")
        server._command[addresses] = f"listen_addresses=127.0.0.1,{way.here}"
        server.restart()
        with django_db_blocker.unblock(), migrated_database(server.url, "vanishing"):
            yield server


def is_held_by(way: Street) -> bool:
    """Whether the server still works for the host that vanished."""
    with connections["vanishing"].cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_stat_activity WHERE client_addr = %s", [way.there])
        return cursor.fetchone() is not None


def run(url: str, directory: Path, *arguments: str, inside: Street | None = None) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.deaths.atomic.vanishing", *arguments]
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.sample.settings",
        "DATABASE_URL": url,
        "PROJ_DIRECTORY": str(directory),
    }
    return subprocess.Popen(inside.command(*command) if inside else command, env=environment)


@pytest.mark.parametrize("where", ["in a statement", "between two"])
def test_its_key_is_free_within_twenty_seconds(
    way: Street, server: Server, tmp_path: Path, where: str
) -> None:
    port = urlsplit(server.url).port
    far = server.url.replace(f"127.0.0.1:{port}", f"{way.here}:{port}")
    host = run(far, tmp_path, "7", where, inside=way)
    try:
        Journal(tmp_path).wait_for("started", "7")
        way.cut()
        vanished = time.monotonic()
        eventually(lambda: not is_held_by(way), "the server has let its transaction go", within=45)
        assert time.monotonic() - vanished < BOUND
        assert run(server.url, tmp_path, "7", "the next").wait() == 0
    finally:
        host.kill()
        host.wait()
