"""A pool child dies: its parent frees the claim, so the work goes on at once, whatever the lease."""

from __future__ import annotations

import time

import pytest

from tests.deaths.leased.verdicts import done_once, next_attempt
from tests.deaths.verdicts import NEXT_CLAIM_WITHIN
from tests.sample import death
from tests.support.results import result_of
from tests.support.workers import processes
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

pytestmark = pytest.mark.process


def test_children_that_end_themselves_are_followed_by_others_within_six_seconds(
    site: Site, family: Worker, key: str
) -> None:
    keys = {f"{key}-{number}": deed for number, deed in enumerate(("die", "segfault", "read a null pointer"))}
    calls = {each: site.send(death.acting, each, [deed]).id for each, deed in keys.items()}

    for each, call in calls.items():
        first, second = site.journal.started(each), next_attempt(site, each, died=True)
        assert second["at"] - first["at"] < NEXT_CLAIM_WITHIN
        assert done_once(site, each, attempts=2, crashes=1).lease_seconds == death.LEASE
        assert result_of(call) == {"key": each, "attempt": 2}
    assert family.is_alive


def test_children_that_the_kernel_kills_are_followed_by_others_within_six_seconds(
    site: Site, family: Worker, key: str
) -> None:
    """In Python code, in a query, and in C code that holds the interpreter and never hears of it."""
    keys = {f"{key}-{number}": deed for number, deed in enumerate(("wait", "query", "hold the interpreter"))}
    for each, deed in keys.items():
        site.send(death.acting, each, [deed])
    victims = {each: site.journal.started(each)["pid"] for each in keys}
    killed = {}
    for each, pid in victims.items():
        killed[each] = time.time()
        processes.kill(pid)

    for each in keys:
        assert next_attempt(site, each, died=True)["at"] - killed[each] < NEXT_CLAIM_WITHIN
        done_once(site, each, attempts=2, crashes=1)
    assert family.is_alive


def test_children_that_are_killed_together_are_all_followed_within_six_seconds(
    site: Site, family: Worker, key: str
) -> None:
    keys = [f"{key}-{number}" for number in range(4)]
    for each in keys:
        site.send(death.acting, each, ["wait"])
    victims = [site.journal.started(each)["pid"] for each in keys]
    killed = time.time()
    for pid in victims:
        processes.kill(pid)

    assert max(next_attempt(site, each, died=True)["at"] for each in keys) - killed < NEXT_CLAIM_WITHIN
    for each in keys:
        done_once(site, each, attempts=2, crashes=1)
    assert family.is_alive


def test_a_child_that_dies_leaves_the_claims_of_its_siblings_alone(
    site: Site, family: Worker, key: str
) -> None:
    spared = f"{key}-spared"
    for each in (key, spared):
        site.send(death.acting, each, ["wait"])
    token = site.journal.started(spared)["token"]
    processes.kill(site.journal.started(key)["pid"])
    next_attempt(site, key, died=True)

    row = site.rows.row(spared)
    assert (row.token, row.crashes) == (token, 0)
    site.journal.open(f"{spared}.1")
    done_once(site, spared, attempts=1, crashes=0)
    assert family.is_alive
