"""A pool child is killed at a chosen point of an atomic run: its writes are there once, and soon."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.deaths.atomic.verdicts import done_once, next_start, visitor
from tests.deaths.verdicts import NEXT_CLAIM_WITHIN
from tests.sample import atomic
from tests.support.ledger.slow_server import COMMIT, COMPLETION, Server, Slow
from tests.support.network.delays import LateProxy
from tests.support.network.detour import port_of, url_through
from tests.support.results import result_of
from tests.support.waiting import eventually
from tests.support.workers import processes
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

pytestmark = pytest.mark.process


@pytest.mark.parametrize("place", ["written", pytest.param("begun", marks=pytest.mark.slow)])
def test_a_child_that_is_killed_in_the_body_is_followed_by_another_within_six_seconds(
    site: Site, family: Worker, key: str, place: str
) -> None:
    call = site.send(atomic.acting, key, [f"{place}: wait"]).id
    victim = visitor(site, key)
    killed = time.time()
    processes.kill(victim)

    assert next_start(site, key, died=True)["at"] - killed < NEXT_CLAIM_WITHIN
    row = done_once(site, key, starts=2, crashes=1)
    assert result_of(call) == json.loads(row.result or "")
    assert family.is_alive


def test_children_that_are_killed_together_are_all_followed_within_six_seconds(
    site: Site, family: Worker, key: str
) -> None:
    keys = [f"{key}-{number}" for number in range(4)]
    for each in keys:
        site.send(atomic.acting, each, ["written: wait"])
    victims = [visitor(site, each) for each in keys]
    killed = time.time()
    for pid in victims:
        processes.kill(pid)

    assert max(next_start(site, each, died=True)["at"] for each in keys) - killed < NEXT_CLAIM_WITHIN
    for each in keys:
        done_once(site, each, starts=2, crashes=1)
    assert family.is_alive


def test_a_child_that_is_killed_before_the_commit_leaves_nothing_although_its_statement_goes_on(
    site: Site, family: Worker, key: str
) -> None:
    """The server ends the statement before it notices. Until then the key is held, also for the parent.

    So that cannot count the death: here as where a whole worker died, only later starts are counted.
    """
    with killed_inside(site, COMPLETION, key) as (server, call):
        eventually(lambda: family.text().count(f"[{call}] received") >= 2, "a copy came meanwhile")
        assert (site.rows.find(key), site.journal.starts(key)) == (None, 1)
        server.let_go()

        next_start(site, key, died=True)
        done_once(site, key, starts=2, crashes=0)
    assert family.is_alive


def test_a_child_that_is_killed_inside_the_commit_has_committed_and_its_copy_does_not_run(
    site: Site, family: Worker, key: str
) -> None:
    with killed_inside(site, COMMIT, key) as (server, call):
        eventually(lambda: family.text().count(f"[{call}] received") >= 2, "a copy came meanwhile")
        assert site.rows.find(key) is None
        server.let_go()

        assert done_once(site, key, starts=1, crashes=0).attempts == 1
    assert result_of(call) == {"key": key, "attempt": 1}
    assert family.is_alive


def test_a_child_that_is_killed_before_it_hears_of_its_commit_is_not_run_again(
    own_site: Site, key: str
) -> None:
    site = own_site
    with LateProxy(port_of(site)) as proxy, site.running("remote", DATABASE_URL=url_through(proxy, site)):
        call = site.send(atomic.acting, key, ["written: wait"]).id
        victim = visitor(site, key)
        proxy.hold_answers_to(b"COMMIT")
        site.journal.open(f"{key}.1")
        eventually(lambda: site.rows.find(key), "the commit arrived")
        processes.kill(victim)
        proxy.answer()

        assert done_once(site, key, starts=1, crashes=0).attempts == 1
        assert result_of(call) == {"key": key, "attempt": 1}


def test_a_child_that_is_killed_after_the_commit_is_not_run_again_and_its_result_is_reported(
    site: Site, family: Worker, key: str
) -> None:
    call = site.send(atomic.acting, key, ["committed: wait"]).id
    processes.kill(visitor(site, key))

    assert done_once(site, key, starts=1, crashes=0).attempts == 1
    assert result_of(call) == {"key": key, "attempt": 1}
    assert family.is_alive


@contextmanager
def killed_inside(site: Site, slow: Slow, key: str) -> Iterator[tuple[Server, str]]:
    """Kill the child that runs a key as soon as this statement is held up in the server; the call."""
    server = Server(site.rows.alias)
    with server.holding_up(slow):
        call = site.send(atomic.acting, key, []).id
        server.wait_until_held_up()
        processes.kill(site.journal.started(key)["pid"])
        yield server, call
