"""Celery's own revoke outlives the workers that heard it, and takes nothing from a body that runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.sample import death
from tests.sample.celery import app
from tests.sample.tasks import skipping
from tests.support.brokers.control import command_to
from tests.support.staying import stays
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker
from tests.support.workers.reserving import (
    acked_early,
    acked_when_lost,
    charge,
    committing,
    retried_no_more,
    working,
)
from tests.support.workers.site import Site

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("_sending")]


@pytest.fixture
def worker(own_site: Site) -> Iterator[Worker]:
    with working(own_site, "listener", concurrency=2) as worker:
        yield worker


def assert_never_runs(site: Site, key: str) -> None:
    """A worker that heard of no revoke takes what is queued, one by one, and the key stays cancelled."""
    with working(site, "successor"):
        charge.delay(f"{key}-last")
        site.rows.wait_for(f"{key}-last", State.SUCCEEDED)
        assert site.broker.waiting() == 0
    assert site.rows.row(key).state == State.CANCELLED
    assert site.journal.starts(key) == 0


def test_a_result_that_is_revoked_while_no_worker_lives_never_runs(own_site: Site, key: str) -> None:
    charge.delay(key).revoke()
    assert own_site.rows.row(key).state == State.CANCELLED
    assert own_site.broker.waiting() == 1
    assert_never_runs(own_site, key)


@pytest.mark.parametrize("by", ["control", "plain result", "accepted result"])
def test_a_queued_call_that_is_revoked_stays_cancelled_after_a_restart(
    own_site: Site, key: str, by: str
) -> None:
    with working(own_site, "listener") as listener:
        charge.delay(f"{key}-busy", gated=True)
        own_site.journal.started(f"{key}-busy")
        result = charge.delay(key)
        match by:
            case "control":
                app.control.revoke(result.id)
            case "plain result":
                app.AsyncResult(result.id).revoke()
            case _:
                result.revoke()
        own_site.rows.wait_for(key, State.CANCELLED)
        listener.wait_for_log(f"Tasks flagged as revoked: {result.id}")
        listener.kill()
    assert own_site.broker.waiting() == 1, "its message is still there"
    own_site.journal.open(f"{key}-busy.1")
    assert_never_runs(own_site, key)


def test_a_far_call_that_is_revoked_is_never_sent(own_site: Site, worker: Worker, key: str) -> None:
    result = charge.apply_async((key,), countdown=3600)
    app.control.revoke(result.id)
    row = own_site.rows.wait_for(key, State.CANCELLED)
    assert row.message is None
    assert worker.is_alive


def test_several_calls_are_revoked_at_once(own_site: Site, worker: Worker, key: str) -> None:
    keys = [f"{key}-{number}" for number in range(3)]
    calls = [charge.apply_async((each,), countdown=3600).id for each in keys]
    app.control.revoke(calls[:2])
    for each in keys[:2]:
        own_site.rows.wait_for(each, State.CANCELLED)
    assert own_site.rows.row(keys[2]).state == State.PENDING
    assert worker.is_alive


#: Also atomic tasks whose message Celery does not put back: their transaction has left nothing.
BYSTANDERS = [charge, skipping, committing, acked_early, acked_when_lost, retried_no_more]


@pytest.mark.parametrize("task", BYSTANDERS, ids=lambda task: task.name)
def test_a_call_whose_child_is_killed_for_the_call_before_it_runs_again(
    own_site: Site, worker: Worker, key: str, task: Any
) -> None:
    task.delay(key, gated=True)
    child = own_site.journal.started(key)["pid"]
    command_to(own_site, "kill_child", pid=child)
    eventually(lambda: child not in worker.children(), "the child has ended")
    for attempt in (1, 2):
        own_site.journal.open(f"{key}.{attempt}")
    row = own_site.rows.wait_for(key, State.SUCCEEDED)
    assert (own_site.journal.starts(key), row.crashes, len(own_site.rows.effects(key))) == (2, 0, 1)
    own_site.broker.wait_until_empty()


@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
def test_running_calls_that_are_revoked_by_a_stamp_and_terminated_stay_cancelled(
    own_site: Site, worker: Worker, key: str, how: str
) -> None:
    calls = {f"{key}-{task.name}": task for task in (charge, committing)}
    stamps = {"stamped_headers": ["tenant"], "tenant": key}
    for each, task in calls.items():
        task.apply_async((each,), {"gated": True}, **stamps)
    children = [own_site.journal.started(each)["pid"] for each in calls]
    command_to(own_site, "revoke_by_stamped_headers", headers={"tenant": [key]}, terminate=True, signal=how)
    eventually(lambda: not set(children) & set(worker.children()), "the children have ended")
    for each in calls:
        own_site.journal.open(f"{each}.1")
        own_site.journal.open(f"{each}.2")
        assert own_site.rows.wait_for(each, State.CANCELLED).crashes == 0
    own_site.broker.wait_until_empty()
    stays(
        lambda: all(
            (own_site.rows.row(each).state, own_site.journal.starts(each)) == (State.CANCELLED, 1)
            for each in calls
        ),
        "cancelled, started once",
        seconds=3.0,
    )


def parked(site: Site, *arguments: object, **options: object) -> tuple[str, bytes]:
    """Reserve a call whose message nobody takes; its id and the message."""
    result = charge.apply_async(arguments, queue=site.broker.parked, **options)
    return result.id, site.broker.take_parked()


@pytest.mark.usefixtures("worker")
def test_a_running_body_that_is_revoked_and_not_terminated_completes(own_site: Site, key: str) -> None:
    result = charge.delay(key, gated=True)
    own_site.journal.started(key)
    result.revoke()
    own_site.workers[-1].wait_for_log(f"Tasks flagged as revoked: {result.id}")
    own_site.journal.open(f"{key}.1")
    row = own_site.rows.wait_for(key, State.SUCCEEDED)
    assert (row.attempts, len(own_site.rows.effects(key))) == (1, 1)


def test_a_revoked_copy_that_is_redelivered_does_not_end_the_body_that_runs(
    own_site: Site, worker: Worker, key: str
) -> None:
    call, raw = parked(own_site, key, True)
    own_site.broker.deliver(raw)
    own_site.journal.started(key)
    app.control.revoke(call)
    worker.wait_for_log(f"Tasks flagged as revoked: {call}")
    own_site.broker.deliver(raw, redelivered=True)
    worker.wait_for_log(f"Discarding revoked task: {charge.name}[{call}]")
    own_site.journal.open(f"{key}.1")
    row = own_site.rows.wait_for(key, State.SUCCEEDED)
    assert (row.attempts, len(own_site.rows.effects(key))) == (1, 1)


def test_a_copy_that_expires_meanwhile_does_not_keep_a_retry_from_running(
    own_site: Site, worker: Worker, key: str
) -> None:
    submission = death.acting.submit((key, ["retry after the gate"]), queue=own_site.broker.parked, expires=8)
    assert submission.result is not None
    raw = own_site.broker.take_parked()
    end = datetime.fromisoformat(json.loads(raw)["headers"]["expires"])
    fresh = json.loads(raw)
    fresh["headers"]["expires"] = None
    own_site.broker.deliver(json.dumps(fresh).encode())
    own_site.journal.started(key)

    eventually(lambda: datetime.now(UTC) > end + timedelta(seconds=0.1), "the copy has expired")
    own_site.broker.deliver(raw, redelivered=True)
    worker.wait_for_log(f"Discarding revoked task: {death.acting.name}[{submission.result.id}]")
    own_site.journal.open(f"{key}.1")
    row = own_site.rows.wait_for(key, State.SUCCEEDED)
    assert (row.attempts, len(own_site.rows.effects(key))) == (2, 1)


def test_a_message_that_expires_in_its_queue_cancels_its_key(
    own_site: Site, worker: Worker, key: str
) -> None:
    call, raw = parked(own_site, key, expires=-1)
    own_site.broker.deliver(raw)
    own_site.rows.wait_for(key, State.CANCELLED)
    assert own_site.journal.starts(key) == 0
    assert worker.is_alive
    rows = IdempotencyKey.objects.using(own_site.rows.alias)
    assert rows.get(task_id=call).attempts == 0
