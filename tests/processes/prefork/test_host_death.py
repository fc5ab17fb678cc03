"""A whole worker host dies, and the broker would keep its messages for an hour: the others take over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.thread import LEADER_LEASE, POLL
from tests.sample import tasks
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

pytestmark = pytest.mark.process

#: What the contract allows from a host's death to the next claim, besides the lease.
ALLOWANCE = 20


@dataclass
class Aftermath:
    """What was seen after the worker that led the sweeper was killed with a body running."""

    first: dict[str, Any]
    second: dict[str, Any]
    dead: Worker
    heir: Worker
    old_leader: str
    new_leader: str
    leader_after: float
    unacknowledged: int


@pytest.fixture(scope="module")
def aftermath(own_site: Site) -> Iterator[Aftermath]:
    """Two workers at their normal pace; the leader dies while it runs a body."""
    site, key = own_site, "host-death"
    pace = {"PROJ_SWEEP_SECONDS": ""}
    with site.running("leader", **pace) as dead:
        old = eventually(site.rows.leader_holder, "the sweeper has a leader")
        site.send(tasks.skipping, key, gated=True)
        first = site.journal.started(key)
        with site.running("heir", **pace) as heir:
            assert site.rows.leader_holder() == old
            site.journal.open(f"{key}.2")
            site.journal.write("killed", key)
            dead.kill()
            eventually(lambda: site.rows.leader_holder() != old, "a new leader")
            new = site.rows.leader_holder()
            site.journal.write("led", key)
            second = site.journal.started(key, attempt=2)
            site.rows.wait_for(key, State.SUCCEEDED)
            killed, led = (site.journal.read(event, key)[0]["at"] for event in ("killed", "led"))
            eventually(lambda: site.broker.unacknowledged() <= 1, "the heir acknowledges its own message")
            unacknowledged = site.broker.unacknowledged()
            site.broker.clear()
            yield Aftermath(
                first,
                {**second, "after": second["at"] - killed},
                dead,
                heir,
                old,
                new,
                led - killed,
                unacknowledged,
            )


def test_the_work_is_done_within_a_lease_and_twenty_seconds(own_site: Site, aftermath: Aftermath) -> None:
    assert aftermath.second["after"] < tasks.LEASE + ALLOWANCE
    assert aftermath.second["previous_attempt_died"] is True
    assert aftermath.second["task_id"] == aftermath.first["task_id"]
    assert aftermath.second["pid"] in aftermath.heir.children()
    assert len(own_site.rows.effects("host-death")) == 1


def test_another_worker_leads_the_sweeper_within_its_lease(aftermath: Aftermath) -> None:
    assert aftermath.new_leader != aftermath.old_leader
    assert aftermath.leader_after < LEADER_LEASE + 2 * POLL


def test_the_broker_still_kept_the_message_of_the_dead_worker(aftermath: Aftermath) -> None:
    assert not aftermath.dead.is_alive
    assert aftermath.unacknowledged == 1
