"""A host that vanishes between a write to the ledger and its commit holds no row, and no duty, for long."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import pytest
from django.db import DatabaseError

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.models import SWEEPER
from example_project.servers import Server
from tests.support.network.far import ALIAS, is_held_by, run
from tests.support.network.street import Street
from tests.support.waiting import eventually
from tests.support.workers.journal import Journal

pytestmark = pytest.mark.process

#: As for an atomic claim, and some more for a machine that is busy.
BOUND = 20 + 3
#: In which a process begins there.
STARTING = 90
HOST = "tests.deaths.leased.vanishing"


@pytest.mark.parametrize("where", ["completion", "step", "record", "progress"])
def test_its_key_is_free_within_twenty_seconds(
    way: Street, far_server: Server, tmp_path: Path, where: str
) -> None:
    host = run(HOST, far_server, tmp_path, where, inside=way)
    try:
        Journal(tmp_path).wait_for("written", where, within=STARTING)
        way.cut()
        vanished = time.monotonic()
        assert is_held_by(way)
        eventually(lambda: not is_held_by(way), "the server has let its transaction go", within=45)
        assert time.monotonic() - vanished < BOUND
    finally:
        host.kill()
        host.wait()


def test_another_sweeper_leads_within_twenty_seconds(way: Street, far_server: Server, tmp_path: Path) -> None:
    host = run(HOST, far_server, tmp_path, "lead", inside=way)
    try:
        Journal(tmp_path).wait_for("written", "lead", within=STARTING)
        way.cut()
        vanished = time.monotonic()
        assert is_held_by(way)
        eventually(_leads, "another one leads", within=45)
        assert time.monotonic() - vanished < BOUND
    finally:
        host.kill()
        host.wait()


def _leads() -> bool:
    """Whether a sweeper beside the server may lead; not while the one that vanished holds the row."""
    with suppress(DatabaseError), get_store(ALIAS).side_connection() as side:
        return side.lead(SWEEPER, holder="beside", lease=10)
    return False
