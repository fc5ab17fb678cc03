"""A host that vanishes in an atomic body, without a word to the database, gives its key up all the same."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from example_project.servers import Server
from tests.support.network.far import is_held_by, run
from tests.support.network.street import Street
from tests.support.waiting import eventually
from tests.support.workers.journal import Journal

pytestmark = [pytest.mark.process, pytest.mark.slow]

#: What README promises, and some more for a machine that is busy.
BOUND = 20 + 3
#: In which a process begins there.
STARTING = 90
HOST = "tests.deaths.atomic.vanishing"


@pytest.mark.parametrize("where", ["in a statement", "between two"])
def test_its_key_is_free_within_twenty_seconds(
    way: Street, far_server: Server, tmp_path: Path, where: str
) -> None:
    host = run(HOST, far_server, tmp_path, "7", where, inside=way)
    try:
        Journal(tmp_path).wait_for("started", "7", within=STARTING)
        way.cut()
        vanished = time.monotonic()
        eventually(lambda: not is_held_by(way), "the server has let its transaction go", within=45)
        assert time.monotonic() - vanished < BOUND
        assert run(HOST, far_server, tmp_path, "7", "the next").wait() == 0
    finally:
        host.kill()
        host.wait()
