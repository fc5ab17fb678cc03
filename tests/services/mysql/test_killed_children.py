"""Worker processes on MariaDB or MySQL whose children are killed: nothing is lost or done twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from django.db import connections

from tests.services.mysql.server import ALIAS, mark
from tests.support.brokers.broker import Broker
from tests.support.ledger.rows import Rows
from tests.support.workers.journal import Journal
from tests.support.workers.kinds import effects, keys_of, kill_at_its_gate, send, wait_until_done
from tests.support.workers.reserving import sending_to
from tests.support.workers.site import Site

pytestmark = [mark, pytest.mark.process]

TASKS, KILLS = 200, 15


@pytest.fixture
def site(transactional_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:  # noqa: ARG001
    """The test database, a broker and a directory that are open to worker processes."""
    url = os.environ.get("CELERY_BROKER_URL", "")
    if not url.startswith("redis"):
        pytest.skip("needs Redis")
    broker = Broker(url, prefix=f"services-{os.getpid()}:")
    monkeypatch.setenv("PROJ_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("PROJ_PREFIX", broker.prefix)
    site = Site(tmp_path, database_url(), broker, Journal(tmp_path), Rows(ALIAS))
    yield site
    site.close()
    broker.clear()


def database_url() -> str:
    """Where the test database is."""
    database = connections[ALIAS].settings_dict
    account = quote(database["USER"]) + (f":{quote(database['PASSWORD'])}" if database["PASSWORD"] else "")
    return f"mysql://{account}@{database['HOST']}:{database['PORT'] or 3306}/{database['NAME']}"


def test_what_was_called_is_done_once_while_children_are_killed(site: Site) -> None:
    variables = {"MYSQL_URL": "", "PROJ_RESULT_BACKEND": "disabled://"}
    workers = [site.worker(name, "--concurrency", "2", **variables).launch() for name in ("first", "second")]
    for worker in workers:
        worker.wait_until_ready()
    keys = keys_of(TASKS)
    victims = keys[:: TASKS // KILLS][:KILLS]
    with sending_to(site):
        for key in keys:
            send(site, key, waits=key in victims)
            if key in victims:
                kill_at_its_gate(site, key)
        wait_until_done(site, keys)
    assert effects(site) == dict.fromkeys(keys, 1)
    assert {site.journal.starts(key) for key in victims} == {2}
    assert {site.journal.starts(key) for key in keys if key not in victims} == {1}
    assert all(worker.is_alive for worker in workers)
