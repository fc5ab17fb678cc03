"""A whole worker dies and leaves no word: its broker's copies run, and what that counted is taken back."""

from __future__ import annotations

import pytest

from django_idempotent_tasks.states import State
from tests.deaths.atomic.verdicts import done_once, next_start, undone, visitor
from tests.sample import atomic
from tests.support.waiting import eventually
from tests.support.workers.site import Site

pytestmark = pytest.mark.process

#: A worker to which the broker gives at once what another one had.
HEIR = {"PROJ_VISIBILITY_TIMEOUT": "1"}


def test_copies_of_what_a_killed_worker_ran_are_counted_as_crashes_until_they_end(
    own_site: Site, key: str
) -> None:
    site, failing, retried = own_site, f"{key}-failing", f"{key}-retried"
    plans = {key: "written: wait", failing: "written: raise", retried: "written: retry"}
    with site.running("doomed", "--concurrency", "3"):
        for each, second in plans.items():
            site.send(atomic.acting, each, ["written: wait", second])
        for each in plans:
            visitor(site, each)
    assert site.rows.count() == 0

    with site.running("heir", "--concurrency", "3", **HEIR):
        next_start(site, key, died=True)
        row = site.rows.wait_for(key, State.RETRY)
        assert (row.crashes, site.rows.effects(key)) == (1, [])
        site.journal.open(f"{key}.2")

        done_once(site, key, starts=2, crashes=0)
        done_once(site, retried, starts=3, crashes=0)
        assert "Trouble" in (undone(site, failing, State.FAILED, starts=2, crashes=0).result or "")


@pytest.mark.slow
def test_copies_of_what_a_killed_worker_had_fetched_and_not_started_have_not_crashed(
    own_site: Site, key: str
) -> None:
    site, fetched = own_site, [f"{key}-{number}" for number in range(5)]
    with site.running("hoarder", "--concurrency", "1", "--prefetch-multiplier", "10"):
        site.send(atomic.acting, key, ["written: wait"])
        visitor(site, key)
        for each in fetched:
            site.send(atomic.acting, each, [])
        eventually(lambda: site.broker.unacknowledged() == 6, "all are fetched")

    with site.running("heir", "--concurrency", "2", **HEIR):
        for each in fetched:
            done_once(site, each, starts=1, crashes=0)
        done_once(site, key, starts=2, crashes=0)


@pytest.mark.slow
def test_a_copy_that_comes_while_the_first_runs_waits_for_its_end(own_site: Site, key: str) -> None:
    site = own_site
    with site.running("slow", "--concurrency", "2", **HEIR) as worker:
        call = site.send(atomic.acting, key, ["written: wait"]).id
        visitor(site, key)
        eventually(lambda: worker.text().count(f"[{call}] received") >= 2, "a copy came meanwhile")
        site.journal.open(f"{key}.1")

        assert done_once(site, key, starts=1, crashes=0).attempts == 1
