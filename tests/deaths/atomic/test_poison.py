"""An atomic body that kills its processes is started a bounded number of times, then its key fails."""

from __future__ import annotations

import pytest

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import Reason, State
from tests.deaths.atomic.verdicts import done_once, undone
from tests.deaths.verdicts import NEXT_CLAIM_WITHIN, stamp
from tests.sample import atomic
from tests.support.results import result_of
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

pytestmark = pytest.mark.process

MAX_CRASHES = 3


def assert_poisoned(row: IdempotencyKey) -> None:
    assert (row.state, row.reason, row.crashes) == (State.FAILED, Reason.POISON, MAX_CRASHES)


def test_a_key_whose_bodies_kill_their_children_has_failed_after_as_many_as_its_task_says(
    site: Site, family: Worker, key: str
) -> None:
    site.send(atomic.delicate, key, ["written: die"] * 9)

    assert undone(site, key, State.FAILED, starts=2, crashes=2).reason == Reason.POISON
    assert family.is_alive


@pytest.mark.slow
def test_a_key_whose_bodies_kill_their_children_has_failed_after_three(
    site: Site, family: Worker, key: str
) -> None:
    call = site.send(atomic.acting, key, ["written: die"] * 9).id

    assert_poisoned(undone(site, key, State.FAILED, starts=MAX_CRASHES, crashes=MAX_CRASHES))
    assert type(result_of(call)).__name__ == "PoisonTask"
    first, second, third = (entry["at"] for entry in site.journal.read("started", key))
    end = stamp(site.rows.row(key).finished_at)
    assert second - first < NEXT_CLAIM_WITHIN
    assert third - second >= 2
    assert end - third >= 4
    assert site.send(atomic.acting, key, []).get(timeout=30)["reason"] == "failed"
    assert family.is_alive


@pytest.mark.slow
def test_failures_between_the_deaths_do_not_start_the_count_anew(
    site: Site, family: Worker, key: str
) -> None:
    site.send(atomic.persistent, key, ["written: raise", "written: die"] * 4)

    assert_poisoned(undone(site, key, State.FAILED, starts=2 * MAX_CRASHES, crashes=MAX_CRASHES))
    assert family.is_alive


@pytest.mark.slow
def test_a_key_whose_bodies_die_inside_a_statement_that_goes_on_has_failed_after_four(
    site: Site, family: Worker, key: str
) -> None:
    """A dead child's transaction still has the key when its parent wants to count the first death."""
    site.send(atomic.acting, key, ["written: die in a statement"] * 9)

    site.rows.wait_for(key, State.FAILED, within=60)
    assert_poisoned(undone(site, key, State.FAILED, starts=MAX_CRASHES + 1, crashes=MAX_CRASHES))
    assert family.is_alive


@pytest.mark.slow
def test_two_deaths_and_a_success_complete_the_key(site: Site, family: Worker, key: str) -> None:
    site.send(atomic.acting, key, ["begun: die", "written: die"])

    done_once(site, key, starts=3, crashes=2)
    assert family.is_alive


@pytest.mark.slow
def test_a_key_whose_bodies_kill_their_whole_workers_has_failed_after_four(own_site: Site, key: str) -> None:
    """The first death left nothing, not even a word of the parent; each later start was counted before."""
    site = own_site
    workers = [site.worker(name, PROJ_VISIBILITY_TIMEOUT="1") for name in ("first", "second", "third")]
    site.send(atomic.acting, key, ["written: die with the worker"] * 9)

    def has_failed() -> bool:
        for worker in workers:
            if not worker.is_alive:
                worker.launch()
        row = site.rows.find(key)
        return row is not None and row.state == State.FAILED

    eventually(has_failed, "the key has failed", within=90)
    assert_poisoned(undone(site, key, State.FAILED, starts=MAX_CRASHES + 1, crashes=MAX_CRASHES))
