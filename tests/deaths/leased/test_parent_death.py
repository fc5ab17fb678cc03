"""A whole worker dies, its broker would keep the message for an hour: another's sweeper takes over."""

from __future__ import annotations

import json
import time

import pytest

from tests.deaths.leased.verdicts import done_once, next_attempt
from tests.sample import death
from tests.support.waiting import eventually
from tests.support.workers.site import Site

pytestmark = pytest.mark.process

#: What the contract allows from a host's death to the next claim.
LEASE, ALLOWANCE = 2, 20


def test_the_work_of_a_killed_worker_is_claimed_within_its_lease_and_twenty_seconds(
    own_site: Site, key: str
) -> None:
    """Kombu's own options: one hour until a message is visible again, and a sweeper at its normal pace."""
    site = own_site
    kombus = {"broker_transport_options": {"global_keyprefix": site.broker.prefix}}
    common = {"PROJ_CELERY": json.dumps(kombus), "PROJ_SWEEP_SECONDS": ""}
    with site.running("first", **common) as first:
        eventually(site.rows.leader, "the first worker leads the sweeper")
        site.send(death.brief, key, ["wait"])
        site.journal.started(key)
        with site.running("second", **common) as second:
            killed = time.time()
            first.kill()

            taken = next_attempt(site, key, died=True)
            assert taken["pid"] in second.children()
            assert taken["at"] - killed < LEASE + ALLOWANCE
            print(f"claimed after {taken['at'] - killed:.1f} s")
            assert site.broker.unacknowledged() >= 1, "the broker had sent the message again by itself"
            site.broker.clear()
            done_once(site, key, attempts=2, crashes=1)
