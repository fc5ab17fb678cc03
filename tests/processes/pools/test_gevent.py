"""What only greenlets do: one that computes keeps all others from their turn, one can be killed."""

from __future__ import annotations

import pytest

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.sweep import sweep_once
from tests.processes.pools.house import House, hogging
from tests.sample import tasks
from tests.sample.celery import app
from tests.support.brokers.control import revoke
from tests.support.waiting import eventually
from tests.support.workers.reserving import sending_to

pytestmark = [pytest.mark.process, pytest.mark.parametrize("_house", ["gevent"], indirect=True)]


def test_a_body_that_never_yields_loses_its_lease_and_cannot_complete(house: House, key: str) -> None:
    site = house.site
    site.send(hogging, key)
    first = site.journal.started(key)

    def freed() -> bool:
        sweep_once(app, get_store())
        return bool(site.rows.row(key).token > first["token"])

    with sending_to(site):
        eventually(freed, "another worker's sweeper has freed the key", every=0.1)
    site.journal.open(f"{key}.1")
    assert site.journal.wait_for("refused", key)["attempt"] == 1
    row = site.rows.wait_for(key, State.SUCCEEDED)
    assert [(effect.attempt, effect.token) for effect in site.rows.effects(key)] == [(2, row.token)]


def test_a_body_that_is_revoked_and_terminated_ends_with_its_key_cancelled(house: House, key: str) -> None:
    site = house.site
    call = site.send(tasks.skipping, key, gated=True)
    site.journal.started(key)
    revoke(site, call.id, terminate=True)
    site.rows.wait_for(key, State.CANCELLED)
    site.journal.open(f"{key}.1")
    site.broker.wait_until_empty()
    assert site.rows.effects(key) == []
    assert site.rows.row(key).state == State.CANCELLED

    site.send(tasks.skipping, f"{key} next")
    site.rows.wait_for(f"{key} next", State.SUCCEEDED)
