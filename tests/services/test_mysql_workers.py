"""Worker processes on MariaDB or MySQL whose children are killed: nothing is lost or done twice."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from django.db import connections, transaction

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.process.reserving import sending_to
from tests.proj import atomic, death, reserving
from tests.proj.models import Effect
from tests.services.mysql import ALIAS, mark
from tests.support import processes
from tests.support.broker import Broker
from tests.support.journal import Journal
from tests.support.rows import Rows
from tests.support.site import Site
from tests.support.waiting import eventually

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


def leased(site: Site, key: str, *, dies: bool) -> None:
    """Send a call to be run under a lease."""
    site.send(death.acting, key, ["wait"] if dies else [])


def atomically(site: Site, key: str, *, dies: bool) -> None:
    """Send a call to be run in one transaction."""
    site.send(atomic.acting, key, ["written: wait"] if dies else [])


def reserved(_site: Site, key: str, *, dies: bool) -> None:
    """Reserve a call to be run under a lease."""
    with transaction.atomic(using=ALIAS):
        reserving.ordering.apply_async((key,), {"gated": dies})


def reserved_atomically(_site: Site, key: str, *, dies: bool) -> None:
    """Reserve a call to be run in one transaction."""
    with transaction.atomic(using=ALIAS):
        atomic.reserved.apply_async((key, ["written: wait"] if dies else []))


KINDS: tuple[Callable[..., None], ...] = (leased, atomically, reserved, reserved_atomically)


def kill_at_its_gate(site: Site, key: str) -> None:
    """End the child that runs this key, once it stands in the middle of its body."""
    eventually((site.directory / f"{key}.1.visited").exists, f"{key} is in its body")
    site.journal.open(*(f"{key}.{attempt}" for attempt in range(2, 9)))
    processes.kill(site.journal.started(key)["pid"])


def test_what_was_called_is_done_once_while_children_are_killed(site: Site) -> None:
    variables = {"MYSQL_URL": "", "PROJ_RESULT_BACKEND": "disabled://"}
    workers = [site.worker(name, "--concurrency", "2", **variables).launch() for name in ("first", "second")]
    for worker in workers:
        worker.wait_until_ready()
    keys = [f"{KINDS[number % len(KINDS)].__name__}-{number}" for number in range(TASKS)]
    victims = keys[:: TASKS // KILLS][:KILLS]
    with sending_to(site):
        for number, key in enumerate(keys):
            KINDS[number % len(KINDS)](site, key, dies=key in victims)
            if key in victims:
                kill_at_its_gate(site, key)
        live = IdempotencyKey.objects.using(ALIAS).exclude(state=State.SUCCEEDED)
        succeeded = IdempotencyKey.objects.using(ALIAS).filter(state=State.SUCCEEDED)
        eventually(
            lambda: succeeded.count() == TASKS and not live.exists(), "all is done", within=90, every=0.2
        )
    assert Counter(Effect.objects.using(ALIAS).values_list("key", flat=True)) == dict.fromkeys(keys, 1)
    assert {site.journal.starts(key) for key in victims} == {2}
    assert {site.journal.starts(key) for key in keys if key not in victims} == {1}
    assert all(worker.is_alive for worker in workers)
