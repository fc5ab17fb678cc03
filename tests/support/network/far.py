"""A host that vanishes, and a PostgreSQL server that it reaches directly: a proxy would answer for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from django.db import connections

from example_project.servers import Server, start_postgres
from tests.support.ledger.databases import migrated_database
from tests.support.network.street import Street, street

if TYPE_CHECKING:
    from pytest_django.plugin import DjangoDbBlocker

#: How Django knows the server's database here.
ALIAS = "vanishing"


@pytest.fixture
def way() -> Iterator[Street]:
    """The way to the host that vanishes."""
    with street() as way:
        yield way


@pytest.fixture
def far_server(way: Street, django_db_blocker: DjangoDbBlocker) -> Iterator[Server]:
    """The server, with the ledger's tables."""
    with start_postgres(durable=False, addresses=("127.0.0.1", way.here)) as server:
        (hba,) = server.log.parent.glob("data/pg_hba.conf")
        with hba.open("a") as file:
            file.write("host all all 10.213.0.0/16 trust\n")
        server.restart()
        with django_db_blocker.unblock(), migrated_database(server.url, ALIAS):
            yield server


def run(
    module: str, server: Server, directory: Path, *words: str, inside: Street | None = None
) -> subprocess.Popen[bytes]:
    """Run a module with these words beside the server, or on the host."""
    command, port = [sys.executable, "-m", module, *words], urlsplit(server.url).port
    url = server.url.replace(f"127.0.0.1:{port}", f"{inside.here}:{port}") if inside else server.url
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.sample.settings",
        "DATABASE_URL": url,
        "PROJ_DIRECTORY": str(directory),
    }
    return subprocess.Popen(inside.command(*command) if inside else command, env=environment)


def is_held_by(way: Street) -> bool:
    """Whether the server still has a transaction open for the host."""
    with connections[ALIAS].cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM pg_stat_activity WHERE client_addr = %s AND xact_start IS NOT NULL", [way.there]
        )
        return cursor.fetchone() is not None
