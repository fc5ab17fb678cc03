"""A database that accepts connections and never answers: bodies go on, and know that their lease is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_idempotent_tasks.states import State
from tests.sample import tasks
from tests.support.network.detour import port_of, url_through
from tests.support.network.proxy import Proxy
from tests.support.waiting import eventually
from tests.support.workers import processes
from tests.support.workers.site import Pair, Site

pytestmark = pytest.mark.process

#: From the freeze until it is known: a lease, and the timeout of a connection that could not renew it.
KNOWN_AFTER = tasks.LEASE + 3
BEHIND = {"queue": "behind"}


@pytest.fixture(scope="module")
def proxy(own_site: Site) -> Iterator[Proxy]:
    """What stands between one of the two workers and the database."""
    with Proxy(port_of(own_site)) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def _workers(own_site: Site, proxy: Proxy) -> Iterator[Pair]:
    """The first worker is behind the proxy; the second one can take over from it."""
    url = url_through(proxy, own_site)
    behind = own_site.worker("behind", "--queues", "behind", "--concurrency", "1", DATABASE_URL=url)
    direct = own_site.worker("direct", "--queues", "celery,behind", "--concurrency", "1")
    pair = Pair(behind, direct)
    yield pair
    pair.kill()


@pytest.fixture
def two_workers(own_site: Site, proxy: Proxy, _workers: Pair) -> Iterator[Site]:
    """Both are alive, and the database answers, before and after."""
    _workers.ready()
    yield own_site
    proxy.thaw()


def start_behind_the_proxy(site: Site, task: Any, key: str) -> None:
    """Let the worker behind the proxy run a body: the other one is kept busy until it has begun."""
    site.send(tasks.returning, f"{key}-decoy", gated=True)
    site.journal.started(f"{key}-decoy")
    site.send(task, key, options=BEHIND)
    assert site.owner(site.journal.started(key)).name == "behind"
    site.journal.open(f"{key}-decoy.1")


def assert_lost_soon(site: Site, key: str, *, since: float) -> None:
    lost = site.journal.wait_for("lost", key)
    assert lost["attempt"] == 1
    assert lost["at"] - since < KNOWN_AFTER


def test_a_body_learns_that_its_lease_is_lost_and_cannot_complete(
    two_workers: Site, proxy: Proxy, key: str
) -> None:
    site = two_workers
    start_behind_the_proxy(site, tasks.watching, key)
    proxy.freeze()
    site.journal.write("frozen", key)
    assert_lost_soon(site, key, since=site.journal.read("frozen", key)[0]["at"])

    site.journal.open(f"{key}.2")
    row = site.rows.wait_for(key, State.SUCCEEDED)
    proxy.thaw()
    site.journal.open(f"{key}.1")
    assert site.journal.wait_for("refused", key)["attempt"] == 1
    site.broker.wait_until_empty()
    assert [effect.attempt for effect in site.rows.effects(key)] == [2]
    assert site.rows.row(key).token == row.token


def test_a_heartbeat_that_never_gets_its_answer_does_not_hide_the_loss(
    two_workers: Site, proxy: Proxy, key: str
) -> None:
    site = two_workers
    start_behind_the_proxy(site, tasks.watching, key)
    proxy.freeze_at(b"unnest(")
    eventually(lambda: proxy.is_frozen, "the heartbeat has asked")
    site.journal.write("frozen", key)

    assert_lost_soon(site, key, since=site.journal.read("frozen", key)[0]["at"])
    site.journal.open(f"{key}.2")
    site.rows.wait_for(key, State.SUCCEEDED)
    proxy.thaw()
    site.journal.open(f"{key}.1")
    site.journal.wait_for("refused", key)
    assert [effect.attempt for effect in site.rows.effects(key)] == [2]


def test_a_database_that_answers_again_within_the_lease_costs_nothing(
    two_workers: Site, proxy: Proxy, key: str
) -> None:
    site = two_workers
    before = proxy.stalled
    start_behind_the_proxy(site, tasks.watching_patiently, key)
    told = site.rows.lease_end(key)
    proxy.freeze()
    eventually(lambda: proxy.stalled > before, "somebody waits for the database")
    proxy.thaw()

    eventually(lambda: site.rows.lease_end(key) > told, "the lease was renewed")
    site.journal.open(f"{key}.1")
    row = site.rows.wait_for(key, State.SUCCEEDED)
    assert (row.attempts, row.token) == (1, 1)
    assert not site.journal.read("lost", key)
    assert [effect.attempt for effect in site.rows.effects(key)] == [1]


def test_a_sweeper_that_never_gets_its_answer_does_not_stop_its_worker(
    two_workers: Site, proxy: Proxy, key: str
) -> None:
    site = two_workers
    behind = site.workers[0]
    eventually(behind.children, "a child")
    proxy.freeze_at(b"leader")
    eventually(lambda: proxy.is_frozen, "the sweeper has asked")
    child = behind.children()[0]
    processes.kill(child)

    eventually(lambda: [pid for pid in behind.children() if pid != child], "the child is replaced")
    proxy.thaw()
    site.send(tasks.skipping, key, options=BEHIND)
    site.rows.wait_for(key, State.SUCCEEDED)
