"""What was killed inside ``external()`` is a person's to decide; before it, it is run again."""

from __future__ import annotations

import pytest

from django_idempotent_tasks.states import Category, State
from tests.sample import failures
from tests.support.workers import processes
from tests.support.workers.site import Site

pytestmark = pytest.mark.process


def is_for_a_person(site: Site, key: str) -> bool:
    """Whether the key waits in review, its effect caused once and its body started once."""
    row = site.rows.wait_for(key, State.REVIEW, within=60)
    site.broker.wait_until_empty()
    assert (row.category, row.due_at) == (Category.MANUAL_REVIEW, None)
    assert [job.state for job in site.rows.failed(key)] == [State.REVIEW]
    charged, started = len(site.journal.read("charged", key)), site.journal.starts(key)
    return (charged, started, site.rows.row(key).state) == (1, 1, State.REVIEW)


@pytest.mark.usefixtures("crew")
def test_a_child_that_is_killed_inside_leaves_its_key_in_review(site: Site, key: str) -> None:
    site.send(failures.careful, key, ["charge and wait"])
    processes.kill(site.journal.wait_for("charged", key)["pid"])
    assert is_for_a_person(site, key)


@pytest.mark.usefixtures("crew")
def test_a_child_that_is_killed_before_it_is_followed_by_another(site: Site, key: str) -> None:
    site.send(failures.careful, key, ["wait"])
    processes.kill(site.journal.started(key)["pid"])
    row = site.rows.wait_for(key, State.SUCCEEDED)
    assert (row.attempts, row.crashes, len(site.rows.effects(key))) == (2, 1, 1)


@pytest.mark.slow
def test_a_worker_that_is_killed_inside_leaves_its_key_in_review(own_site: Site, key: str) -> None:
    """A copy that arrives when the lease is over, before any sweep, does not run it either."""
    site = own_site
    raw = site.park(failures.careful, key, ["charge and wait"])
    site.broker.deliver(raw)
    with site.running("doomed", PROJ_SWEEP_SECONDS="600"):
        site.journal.wait_for("charged", key)
    site.broker.clear()
    site.broker.deliver(raw, redelivered=True)
    with site.running("next", PROJ_SWEEP_SECONDS="6"):
        assert is_for_a_person(site, key)


@pytest.mark.slow
def test_a_worker_that_is_told_to_stop_inside_leaves_its_key_in_review(own_site: Site, key: str) -> None:
    site = own_site
    site.send(failures.careful, key, ["charge and wait"])
    with site.running("leaving") as worker:
        site.journal.wait_for("charged", key)
        worker.process.send_signal(3)  # a cold shutdown
        worker.wait()
    with site.running("next"):
        assert is_for_a_person(site, key)
