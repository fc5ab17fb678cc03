"""``idem doctor --live`` asks real workers what they consume, know and run."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from django_idempotent_tasks.operations.doctor.live import ask
from tests.sample.celery import app
from tests.support.brokers.control import LISTENING, command_to
from tests.support.workers.processes import Worker
from tests.support.workers.reserving import charge
from tests.support.workers.site import Site

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("_sending")]


@pytest.fixture(scope="module")
def seen(own_site: Site) -> Iterator[Worker]:
    """A worker that does not know the module of ``charge``."""
    worker = own_site.worker("seen", "--concurrency", "1", PROJ_CELERY=json.dumps(LISTENING))
    yield worker.start()
    worker.kill()


def _found(site: Site) -> dict[str, str]:
    found = ask(app, site.rows.alias, within=30)
    return {each.id: each.saw for each in found if each.id.startswith("D0")}


def test_a_task_that_the_worker_of_its_queue_does_not_know_is_named(
    own_site: Site, seen: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seen.is_alive
    for other in [name for name in app.tasks if not name.startswith(("reserving.", "celery."))]:
        monkeypatch.delitem(app.tasks, other)  # only some are named, and other tests may have shared some
    found = _found(own_site)
    assert found.keys() == {"D014"}, found
    assert charge.name in found["D014"]


def test_a_queue_without_a_consumer_and_a_worker_without_a_queue_are_named(
    own_site: Site, seen: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seen.is_alive
    monkeypatch.setitem(app.conf, "task_routes", {charge.name: {"queue": "elsewhere"}})
    monkeypatch.setattr(app.amqp, "_rtable", None)
    monkeypatch.setitem(vars(app.amqp), "router", app.amqp.Router())
    found = _found(own_site)
    assert "'elsewhere' has no consumer" in found["D012"]
    command_to(own_site, "cancel_consumer", queue="celery")
    try:
        assert "seen@tests consumes nothing" in _found(own_site)["D013"]
    finally:
        command_to(own_site, "add_consumer", queue="celery")
