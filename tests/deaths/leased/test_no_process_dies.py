"""However a body ends by itself, its key is settled once, its message acknowledged, and no process dies."""

from __future__ import annotations

import pytest

from django_idempotent_tasks.states import Reason, State
from tests.deaths.leased.verdicts import done_once, failed_once, next_attempt
from tests.deaths.verdicts import stamp
from tests.sample import death
from tests.support.results import result_of
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

pytestmark = pytest.mark.process

FAILURES = {
    "raise": ("Trouble", Reason.RETRIES_USED_UP),
    "reject": ("Reject", Reason.PERMANENT),
    "exit": ("TaskExit", Reason.RETRIES_USED_UP),
    "run out of memory": ("TaskMemoryError", Reason.RETRIES_USED_UP),
}
RETRIES = ["retry", "retry by name", "retry with other arguments", "requeue"]


def ran_in(site: Site, key: str) -> set[int]:
    """The children that ran its body; what an earlier test has killed may leave the others only now."""
    return {entry["pid"] for entry in site.journal.read("started") if entry["key"].startswith(key)}


@pytest.mark.parametrize("deed", FAILURES)
def test_a_body_that_fails_leaves_a_failed_key_and_a_living_child(
    site: Site, family: Worker, key: str, deed: str
) -> None:
    site.send(death.acting, key, [deed])

    error, reason = FAILURES[deed]
    assert failed_once(site, key, attempts=1, crashes=0, error=error).reason == reason
    assert site.journal.starts(key) == 1
    assert ran_in(site, key) <= set(family.children())


@pytest.mark.parametrize("deed", RETRIES)
def test_a_body_that_asks_to_run_again_is_one_key_with_one_effect(
    site: Site, family: Worker, key: str, deed: str
) -> None:
    call = site.send(death.acting, key, [deed]).id

    changed = f"{key}-changed" if deed == "retry with other arguments" else key
    row = done_once(site, key, attempts=2, crashes=0, under=changed)
    assert row.task_id == call
    assert result_of(call) == {"key": changed, "attempt": 2}
    assert site.rows.count() == 1
    assert ran_in(site, key) <= set(family.children())


def test_a_rejected_message_comes_back_after_a_second_and_not_in_a_hot_loop(
    site: Site, family: Worker, key: str
) -> None:
    site.send(death.acting, key, ["requeue", "requeue"])

    starts = [site.journal.started(key, attempt=attempt)["at"] for attempt in (1, 2, 3)]
    assert min(starts[1] - starts[0], starts[2] - starts[1]) >= 1
    done_once(site, key, attempts=3, crashes=0)
    assert family.is_alive


def test_a_body_that_ignores_its_call_completes_its_key_without_an_effect(
    site: Site, family: Worker, key: str
) -> None:
    site.send(death.acting, key, ["ignore"])

    row = site.rows.wait_for(key, State.SUCCEEDED)
    site.broker.wait_until_empty()
    assert (row.reason, row.attempts, site.rows.effects(key)) == (Reason.IGNORED, 1, [])
    assert family.is_alive


def test_three_runs_of_a_retried_call_are_one_key(site: Site, family: Worker, key: str) -> None:
    site.send(death.acting, key, ["retry", "retry"])

    next_attempt(site, key, attempt=3, died=False)
    done_once(site, key, attempts=3, crashes=0)
    assert site.rows.count() == 1
    assert site.rows.refusals(key) == []
    assert family.is_alive


def test_a_new_call_does_not_get_in_the_way_of_a_retry_that_is_due(
    site: Site, family: Worker, key: str
) -> None:
    site.send(death.acting, key, ["retry in a second"])
    due = stamp(site.rows.wait_for(key, State.RETRY).open_at)
    others = [site.send(death.acting, key, [], options={"countdown": 1}).id for _ in range(5)]

    second = next_attempt(site, key, died=False)
    assert second["at"] >= due
    assert {result_of(other)["status"] for other in others} == {"skipped"}
    done_once(site, key, attempts=2, crashes=0)
    assert family.is_alive
