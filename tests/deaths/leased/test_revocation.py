"""Celery's own revoke ends the key as CANCELLED: no sweeper brings the work back, and a new call may run."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from django.db import transaction

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.deaths.leased.verdicts import done_once
from tests.sample import death
from tests.support.brokers.control import LISTENING, revoke
from tests.support.results import result_of
from tests.support.staying import stays
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

pytestmark = pytest.mark.process

#: A lease of two seconds is over and was swept.
AFTER_THE_LEASE = 4.0


def is_cancelled(site: Site, key: str) -> bool:
    """Whether the key is cancelled and its body was started once."""
    return (site.rows.row(key).state, site.journal.starts(key)) == (State.CANCELLED, 1)


def assert_a_new_call_runs(site: Site, key: str) -> None:
    """A later call of a cancelled key is new work."""
    call = site.send(death.brief, key, []).id
    row = done_once(site, key, attempts=1, crashes=0)
    assert row.task_id == call


def test_running_calls_that_are_terminated_are_cancelled_for_good(
    site: Site, family: Worker, key: str
) -> None:
    keys = {
        f"{key}-{name}-{how}": (getattr(death, name), how)
        for name in ("brief", "early_acked")
        for how in ("SIGTERM", "SIGKILL")
    }
    calls = {each: site.send(task, each, ["wait"]).id for each, (task, _) in keys.items()}
    children = [site.journal.started(each)["pid"] for each in keys]
    for each, (_, how) in keys.items():
        revoke(site, calls[each], terminate=True, signal=how)

    assert [site.rows.wait_for(each, State.CANCELLED).crashes for each in keys] == [0] * 4
    stays(
        lambda: all(is_cancelled(site, each) for each in keys),
        "cancelled, not started",
        seconds=AFTER_THE_LEASE,
    )
    eventually(lambda: not set(children) & set(family.children()), "the children have ended")
    site.broker.wait_until_empty()
    assert [effect for each in keys for effect in site.rows.effects(each)] == []
    assert family.is_alive


def test_a_new_call_of_a_cancelled_key_runs(site: Site, family: Worker, key: str) -> None:
    call = site.send(death.brief, key, ["wait"]).id
    site.journal.started(key)
    revoke(site, call, terminate=True, signal="SIGTERM")
    site.rows.wait_for(key, State.CANCELLED)

    assert_a_new_call_runs(site, key)
    assert family.is_alive


def test_a_running_call_that_is_revoked_and_not_terminated_finishes(
    site: Site, family: Worker, key: str
) -> None:
    call = site.send(death.brief, key, ["wait"]).id
    site.journal.started(key)
    revoke(site, call)
    family.wait_for_log(f"Tasks flagged as revoked: {call}")
    site.journal.open(f"{key}.1")

    assert done_once(site, key, attempts=1, crashes=0).task_id == call


def test_a_call_that_is_revoked_before_it_starts_takes_no_key(site: Site, family: Worker, key: str) -> None:
    call = uuid4().hex
    revoke(site, call)
    family.wait_for_log(f"Tasks flagged as revoked: {call}")
    site.send(death.brief, key, [], options={"task_id": call})

    family.wait_for_log(f"Discarding revoked task: death.brief[{call}]")
    site.broker.wait_until_empty()
    assert (site.rows.find(key), site.journal.starts(key)) == (None, 0)
    assert_a_new_call_runs(site, key)


def test_a_retry_that_is_revoked_while_it_waits_is_cancelled(site: Site, family: Worker, key: str) -> None:
    call = site.send(death.brief, key, ["retry in five seconds"]).id
    site.rows.wait_for(key, State.RETRY)
    revoke(site, call)

    site.rows.wait_for(key, State.CANCELLED)
    site.broker.wait_until_empty()
    assert is_cancelled(site, key)
    assert_a_new_call_runs(site, key)
    assert family.is_alive


def test_revoking_a_duplicate_leaves_the_accepted_call_alone(site: Site, family: Worker, key: str) -> None:
    accepted = site.send(death.acting, key, ["wait"]).id
    site.journal.started(key)
    duplicate = uuid4().hex
    revoke(site, duplicate)
    family.wait_for_log(f"Tasks flagged as revoked: {duplicate}")
    revoke(site, duplicate, terminate=True, signal="SIGKILL")
    site.send(death.acting, key, [], options={"task_id": duplicate})
    family.wait_for_log(f"Discarding revoked task: death.acting[{duplicate}]")

    assert site.rows.row(key).state == State.RUNNING
    site.journal.open(f"{key}.1")
    assert done_once(site, key, attempts=1, crashes=0).task_id == accepted


def test_every_copy_of_a_cancelled_call_is_skipped(site: Site, family: Worker, key: str) -> None:
    raw = site.park(death.brief, key, ["wait"])
    call = json.loads(raw)["headers"]["id"]
    site.broker.deliver(raw)
    site.journal.started(key)
    revoke(site, call, terminate=True, signal="SIGKILL")
    site.rows.wait_for(key, State.CANCELLED)
    site.broker.wait_until_empty()

    site.broker.deliver(raw, times=3)
    site.broker.wait_until_empty()
    assert is_cancelled(site, key)
    assert family.is_alive


def test_a_cancel_outlives_the_worker_that_was_told(site: Site, own_site: Site, key: str) -> None:
    raw = site.park(death.brief, key, ["wait"])
    call = json.loads(raw)["headers"]["id"]
    listening = {"PROJ_CELERY": json.dumps(LISTENING)}
    with own_site.running("told", **listening):
        own_site.broker.deliver(raw)
        own_site.journal.started(key)
        revoke(own_site, call, terminate=True, signal="SIGKILL")
        own_site.rows.wait_for(key, State.CANCELLED)

    with own_site.running("untold"):
        own_site.broker.deliver(raw)
        own_site.broker.wait_until_empty()
    assert is_cancelled(own_site, key)


def test_a_call_that_was_fetched_behind_a_running_one_and_is_revoked_does_not_start(
    own_site: Site, key: str
) -> None:
    site, behind = own_site, f"{key}-behind"
    listening = {"PROJ_CELERY": json.dumps(LISTENING)}
    with site.running("busy", "--concurrency", "1", "--prefetch-multiplier", "4", **listening) as worker:
        site.send(death.brief, key, ["wait"])
        site.journal.started(key)
        call = site.send(death.brief, behind, []).id
        worker.wait_for_log(f"[{call}] received")
        revoke(site, call)
        worker.wait_for_log(f"Tasks flagged as revoked: {call}")
        site.journal.open(f"{key}.1")

        done_once(site, key, attempts=1, crashes=0)
        assert (site.rows.find(behind), site.journal.starts(behind)) == (None, 0)
        assert_a_new_call_runs(site, behind)


def test_a_key_that_is_locked_while_its_call_is_revoked_is_cancelled_later(
    site: Site, family: Worker, key: str
) -> None:
    call = site.send(death.brief, key, ["wait"]).id
    site.journal.started(key)
    with transaction.atomic():
        locked = IdempotencyKey.objects.select_for_update().get(key_text=f"key={key}")
        revoke(site, call, terminate=True, signal="SIGKILL")
        eventually(lambda: "terminated" in str(result_of(call)), "Celery has revoked it")
        stays(lambda: site.rows.row(key).token == locked.token, "nobody gets past the lock", seconds=1)

    site.rows.wait_for(key, State.CANCELLED)
    assert site.journal.starts(key) == 1
    assert family.is_alive
