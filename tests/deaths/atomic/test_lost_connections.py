"""An atomic run loses its connection or its database: the row knows what became of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_idempotent_tasks.states import Reason, State
from example_project.servers import start_postgres
from tests.deaths.atomic.verdicts import done_once, next_start, undone, visitor
from tests.sample import atomic
from tests.support.ledger.backends import terminate
from tests.support.network.delays import LateProxy
from tests.support.network.detour import port_of, url_through
from tests.support.results import result_of
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site
from tests.support.workers.sites import on_database

pytestmark = pytest.mark.process


@pytest.fixture
def proxy(own_site: Site) -> Iterator[LateProxy]:
    """What stands between one worker and its database."""
    with (
        LateProxy(port_of(own_site)) as proxy,
        own_site.running("remote", DATABASE_URL=url_through(proxy, own_site)),
    ):
        yield proxy


def test_a_call_whose_answer_to_the_commit_is_lost_has_succeeded_and_says_so(
    own_site: Site, proxy: LateProxy, key: str
) -> None:
    site = own_site
    call = site.send(atomic.acting, key, ["written: wait"]).id
    visitor(site, key)
    proxy.hold_answers_to(b"COMMIT")
    site.journal.open(f"{key}.1")
    eventually(lambda: site.rows.find(key), "the commit arrived")
    proxy.cut()
    proxy.answer()

    assert result_of(call) == {"key": key, "attempt": 1}
    assert done_once(site, key, starts=1, crashes=0).attempts == 1


@pytest.mark.slow
def test_a_call_whose_commit_does_not_arrive_has_crashed_and_runs_again(
    own_site: Site, proxy: LateProxy, key: str
) -> None:
    site = own_site
    call = site.send(atomic.acting, key, ["written: wait"]).id
    visitor(site, key)
    proxy.freeze_at(b"COMMIT")
    site.journal.open(f"{key}.1")
    eventually(lambda: proxy.is_frozen, "the commit is on its way")
    proxy.cut()
    proxy.thaw()

    done_once(site, key, starts=2, crashes=1)
    assert result_of(call)["key"] == key


@pytest.mark.parametrize("place", ["written", pytest.param("begun", marks=pytest.mark.slow)])
def test_a_body_whose_backend_is_terminated_has_crashed_and_runs_again(
    site: Site, family: Worker, key: str, place: str
) -> None:
    site.send(atomic.acting, key, [f"{place}: wait"])
    visitor(site, key)
    backend = site.journal.wait_for("waits", key)["backend"]
    assert terminate(f"pid = {backend}", alias=site.rows.alias) == 1
    site.journal.open(f"{key}.1")

    next_start(site, key, died=True)
    done_once(site, key, starts=2, crashes=1)
    assert family.is_alive


@pytest.mark.slow
def test_nothing_runs_while_the_database_is_away_and_the_message_is_not_lost(site: Site, key: str) -> None:
    with (
        start_postgres(durable=False) as server,
        on_database(site, server.url, "frail") as frail,
        frail.running("frail") as worker,
    ):
        server.kill()
        frail.rows.close()
        frail.send(atomic.acting, key, [])
        worker.wait_for_log("Its message goes back to the queue")
        assert site.journal.starts(key) == 0

        server.restart()
        frail.rows.wait_for(key, State.SUCCEEDED)
        done_once(frail, key, starts=1, crashes=0)


@pytest.mark.slow
def test_a_key_whose_backend_is_gone_before_each_commit_has_failed_after_three(
    site: Site, family: Worker, key: str
) -> None:
    site.send(atomic.silent, key, ["written: lose the connection"] * 9)

    row = undone(site, key, State.FAILED, starts=3, crashes=3)
    assert row.reason == Reason.POISON
    assert family.is_alive


def test_a_body_that_idles_longer_than_the_server_allows_has_crashed_and_runs_again(
    site: Site, family: Worker, key: str
) -> None:
    site.send(atomic.acting, key, ["written: idle too long"])

    next_start(site, key, died=True)
    done_once(site, key, starts=2, crashes=1)
    assert family.is_alive
