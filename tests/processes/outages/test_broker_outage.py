"""The broker dies while bodies run: what they do is kept, and what they ask for is sent later."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_idempotent_tasks.states import State
from example_project.servers import Server, start_broker
from tests.sample import endings, tasks
from tests.support.workers.site import Site
from tests.support.workers.sites import on_broker

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A broker that may be killed."""
    with start_broker() as server:
        yield server


@pytest.fixture(scope="module")
def frail_site(own_site: Site, server: Server) -> Iterator[Site]:
    """A worker on that broker; its results go elsewhere."""
    # Two children: with every one busy Celery does not notice that its connection is gone.
    with (
        on_broker(own_site, server.url) as frail,
        frail.running("frail", "--concurrency", "2", PROJ_RESULT_BACKEND="disabled://"),
    ):
        yield frail


def test_a_retry_that_could_not_be_sent_is_sent_by_the_sweeper(
    frail_site: Site, server: Server, key: str
) -> None:
    site = frail_site
    site.send(endings.retried, key, gated=True)
    site.journal.started(key)
    server.kill()
    site.journal.open(*(f"{key}.{attempt}" for attempt in range(1, 9)))

    site.workers[0].wait_for_log("its retry was not sent")
    row = site.rows.row(key)
    assert (row.state, row.attempts) == (State.RETRY, 1)
    server.restart()
    row = site.rows.wait_for(key, State.SUCCEEDED, within=60)
    assert row.attempts >= 3
    assert row.crashes == 0
    assert len(site.rows.effects(key)) == 1
    site.broker.close()
    site.broker.wait_until_empty()


def test_a_completion_without_a_broker_counts(frail_site: Site, server: Server, key: str) -> None:
    site = frail_site
    site.send(tasks.skipping, key, gated=True)
    site.journal.started(key)
    server.kill()
    site.journal.open(f"{key}.1")

    row = site.rows.wait_for(key, State.SUCCEEDED)
    server.restart()
    site.broker.close()
    site.broker.wait_until_empty(within=60)
    assert site.journal.starts(key) == 1
    assert (row.attempts, row.token) == (1, 1)
    assert len(site.rows.effects(key)) == 1
