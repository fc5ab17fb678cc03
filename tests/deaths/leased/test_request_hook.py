"""The hook in the parent lives with a project's own request class, and sleeps where there are no children."""

from __future__ import annotations

import pytest

from tests.deaths.leased.verdicts import done_once, failed_once, next_attempt
from tests.sample import death
from tests.support.workers import processes
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

pytestmark = pytest.mark.process


def test_a_projects_own_request_class_is_still_told_of_a_lost_child(
    site: Site, family: Worker, key: str
) -> None:
    keys = {f"{key}-{task.name}": task for task in (death.counted, death.counted_by_name)}
    for each, task in keys.items():
        site.send(task, each, ["wait"])
    for pid in [site.journal.started(each)["pid"] for each in keys]:
        processes.kill(pid)

    for each in keys:
        heard = site.journal.wait_for("parent heard", each)
        assert (heard["error"], heard["pid"]) == ("WorkerLostError", family.process.pid)
        assert heard["state"] == "RETRY", "the claim was ended after the project's own hook"
        next_attempt(site, each, died=True)
        done_once(site, each, attempts=2, crashes=1)


def test_a_projects_own_request_class_is_still_told_of_a_failed_body(
    site: Site, family: Worker, key: str
) -> None:
    site.send(death.counted, key, ["raise"])

    assert site.journal.wait_for("parent heard", key)["error"] == "Trouble"
    failed_once(site, key, attempts=1, crashes=0, error="Trouble")
    assert family.is_alive


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_without_children_every_ending_is_settled_by_the_body_and_the_hook_does_nothing(
    own_site: Site, key: str, pool: str
) -> None:
    site = own_site
    failures = {
        "raise": "Trouble",
        "exit": "TaskExit",
        "run out of memory": "TaskMemoryError",
        "reject": "Reject",
    }
    successes = {"retry": 2, "requeue": 2, "finish": 1}
    with site.running(pool, "--pool", pool, "--concurrency", "2") as worker:
        for deed in (*failures, *successes):
            site.send(death.counted, f"{key}-{deed}", [deed])
        for deed, error in failures.items():
            failed_once(site, f"{key}-{deed}", attempts=1, crashes=0, error=error)
        for deed, attempts in successes.items():
            done_once(site, f"{key}-{deed}", attempts=attempts, crashes=0)
        assert worker.is_alive
        assert "The parent could not end a claim" not in worker.text()
