"""A body that kills its processes is started a bounded number of times, then its key fails."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import Reason, State
from tests.deaths.leased.verdicts import done_once
from tests.deaths.verdicts import NEXT_CLAIM_WITHIN, stamp
from tests.sample import death
from tests.support.results import result_of
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

pytestmark = pytest.mark.process

MAX_CRASHES = 3
PLANS = {
    "always": ["die"] * 9,
    "alternating": ["raise", "die", "raise", "die", "raise", "die"],
    "twice": ["die", "die"],
}


@dataclass(frozen=True)
class Fates:
    """What became of keys whose bodies kill the children of one worker."""

    rows: dict[str, IdempotencyKey]
    starts: dict[str, list[float]]
    effects: dict[str, list[int]]
    results: dict[str, Any]
    #: What a new call of the poisoned key got, and whether a call of another key succeeded after it.
    refusal: dict[str, Any]
    worker_survived: bool


@pytest.fixture(scope="module")
def fates(own_site: Site) -> Fates:
    """Run each plan to its end, then one more call of the poisoned key and one of another."""
    site = own_site
    with site.running("doomed", "--concurrency", "4") as worker:
        calls = {name: site.send(death.persistent, name, plan).id for name, plan in PLANS.items()}
        for name in calls:
            eventually(lambda name=name: has_ended(site, name), f"the end of {name}", within=60)  # type: ignore[misc]
        site.broker.wait_until_empty()
        refusal = result_of(site.send(death.persistent, "always", []).id)
        site.send(death.persistent, "another", [])
        site.rows.wait_for("another", State.SUCCEEDED)
        return Fates(
            {name: site.rows.row(name) for name in calls},
            {name: [entry["at"] for entry in site.journal.read("started", name)] for name in calls},
            {name: [effect.attempt for effect in site.rows.effects(name)] for name in calls},
            {name: result_of(call) for name, call in calls.items()},
            refusal,
            worker.is_alive,
        )


def has_ended(site: Site, name: str) -> bool:
    """Whether a key has its final state."""
    row = site.rows.find(name)
    return row is not None and row.state in {State.SUCCEEDED, State.FAILED}


@pytest.mark.parametrize(("name", "starts"), [("always", MAX_CRASHES), ("alternating", 2 * MAX_CRASHES)])
def test_a_key_whose_bodies_die_three_times_has_failed_whatever_happened_between(
    fates: Fates, name: str, starts: int
) -> None:
    row = fates.rows[name]
    assert (row.state, row.reason, row.crashes) == (State.FAILED, Reason.POISON, MAX_CRASHES)
    assert len(fates.starts[name]) == starts
    assert type(fates.results[name]).__name__ == "PoisonTask"
    assert fates.effects[name] == []


def test_the_waits_between_starts_that_die_grow(fates: Fates) -> None:
    first, second, third = fates.starts["always"]
    end = stamp(fates.rows["always"].finished_at)
    assert second - first < NEXT_CLAIM_WITHIN
    assert 2 <= third - second < 2 + NEXT_CLAIM_WITHIN
    assert 4 <= end - third < 4 + NEXT_CLAIM_WITHIN


def test_two_crashes_and_a_success_complete_the_key(fates: Fates) -> None:
    row = fates.rows["twice"]
    assert (row.state, row.attempts, row.crashes) == (State.SUCCEEDED, 3, 2)
    assert fates.effects["twice"] == [3]


def test_a_poisoned_key_refuses_a_new_call_and_its_worker_goes_on(fates: Fates) -> None:
    assert (fates.refusal["status"], fates.refusal["reason"]) == ("skipped", "failed")
    assert fates.worker_survived


def test_calls_that_a_dying_worker_had_fetched_and_not_started_have_not_crashed(
    own_site: Site, key: str
) -> None:
    site, fetched = own_site, [f"{key}-{number}" for number in range(5)]
    with site.running("hoarder", "--concurrency", "1", "--prefetch-multiplier", "10"):
        site.send(death.brief, key, ["wait"])
        site.journal.started(key)
        for each in fetched:
            site.send(death.brief, each, [])
        eventually(lambda: site.broker.unacknowledged() == 6, "all are fetched")
    assert [each for each in fetched if site.rows.find(each)] == []

    with site.running("heir", "--concurrency", "2", PROJ_VISIBILITY_TIMEOUT="2"):
        for each in fetched:
            row = site.rows.wait_for(each, State.SUCCEEDED)
            assert (row.attempts, row.crashes, row.token) == (1, 0, 1)
            assert site.journal.started(each)["previous_attempt_died"] is False
        done_once(site, key, attempts=2, crashes=1)


def test_copies_of_a_waiting_key_that_come_again_and_again_are_no_crashes(
    site: Site, family: Worker, key: str
) -> None:
    raw = site.park(death.brief, key, ["die", "die"])
    site.broker.deliver(raw)
    site.rows.wait_for(key, State.RETRY, also=lambda row: row.crashes == 2)
    for _ in range(10):
        site.broker.deliver(another_copy(raw), redelivered=True)

    done_once(site, key, attempts=3, crashes=2)
    assert site.journal.starts(key) == 3
    assert family.is_alive


def another_copy(raw: bytes) -> bytes:
    """The same message as a delivery of its own: workers keep deliveries by their tag."""
    message = json.loads(raw)
    message["properties"]["delivery_tag"] = str(uuid4())
    return json.dumps(message).encode()


def test_a_body_that_kills_a_worker_without_children_is_started_three_times(own_site: Site, key: str) -> None:
    site = own_site
    worker = site.worker("solo", "--pool", "solo", PROJ_VISIBILITY_TIMEOUT="2")
    site.send(death.brief, key, ["die"] * 9)
    for crash in range(1, MAX_CRASHES + 1):
        worker.start()
        site.journal.started(key, attempt=crash)
        assert worker.wait() == -9
        worker.kill()

    worker.start()
    row = site.rows.wait_for(key, State.FAILED)
    assert (row.reason, row.crashes) == (Reason.POISON, MAX_CRASHES)
    assert site.journal.starts(key) == MAX_CRASHES
    worker.kill()
