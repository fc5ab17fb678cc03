"""The ledger does not answer when a child dies: the worker goes on, the work heals with its lease."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.deaths.leased.verdicts import done_once
from tests.sample import death
from tests.support.network.detour import port_of, url_through
from tests.support.network.proxy import Proxy
from tests.support.waiting import eventually
from tests.support.workers import processes
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

pytestmark = pytest.mark.process

#: Seconds in which the parent may neither take nor hand out messages: it gives the ledger three for its own
#: write, and waits up to three for the sweeper's before it forks the next child.
LONGEST_SILENCE = 8.0
GIVEN_UP = "The parent could not end a claim"


@pytest.fixture(scope="module")
def proxy(own_site: Site) -> Iterator[Proxy]:
    """What stands between the worker and the database."""
    with Proxy(port_of(own_site)) as proxy:
        yield proxy


@pytest.fixture
def behind(own_site: Site, proxy: Proxy) -> Iterator[Worker]:
    """A worker that reaches the database through the proxy, with a sweeper at its normal pace."""
    url = url_through(proxy, own_site)
    with own_site.running("behind", "--concurrency", "4", DATABASE_URL=url, PROJ_SWEEP_SECONDS="") as worker:
        yield worker
        proxy.thaw()


def longest_silence(site: Site, key: str, until: Callable[[], object]) -> float:
    """Run small tasks that need no database, one after another; the longest that one took."""
    waits = [0.0]
    is_last = False
    while not is_last:
        is_last = bool(until())
        name, sent = f"{key}-{len(waits)}", time.time()
        site.send(death.ticking, name)
        waits.append(site.journal.wait_for("tick", name, within=60)["at"] - sent)
    return max(waits)


@pytest.mark.parametrize("words", [b"", b"SET reason = 9"], ids=["at once", "in the middle of its statement"])
def test_a_ledger_that_freezes_does_not_stop_the_parent_of_a_dead_child(
    own_site: Site, proxy: Proxy, behind: Worker, key: str, words: bytes
) -> None:
    site, keys = own_site, [f"{key}-{number}" for number in range(2)]
    for each in keys:
        site.send(death.brief, each, ["wait"])
    victims = [site.journal.started(each)["pid"] for each in keys]
    if words:
        proxy.freeze_at(words)
    else:
        proxy.freeze()
    for pid in victims:
        processes.kill(pid)

    silence = longest_silence(
        site, key, lambda: GIVEN_UP in behind.text() and not set(victims) & set(behind.children())
    )
    assert silence < LONGEST_SILENCE
    proxy.thaw()
    for each in keys:
        done_once(site, each, attempts=2, crashes=1, within=60)
    assert behind.is_alive
    print(f"silent for {silence:.1f} s")


def test_after_one_failure_further_dead_children_are_left_to_their_leases(
    own_site: Site, proxy: Proxy, behind: Worker, key: str
) -> None:
    site, keys = own_site, [f"{key}-{number}" for number in range(3)]
    for each in keys:
        site.send(death.brief, each, ["wait"])
    victims = [site.journal.started(each)["pid"] for each in keys]
    proxy.freeze()
    for pid in victims:
        processes.kill(pid)
        eventually(lambda pid=pid: pid not in behind.children(), "the parent has noticed")  # type: ignore[misc]
    behind.wait_for_log(GIVEN_UP)
    proxy.thaw()

    for each in keys:
        done_once(site, each, attempts=2, crashes=1, within=60)
    assert behind.text().count(GIVEN_UP) == 1
