"""A message that comes again after its work is done never runs the body again, whatever is written on it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.states import State
from tests.sample import tasks
from tests.support.results import result_of
from tests.support.workers.site import Site

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("pair")]


@pytest.mark.parametrize("redelivered", [None, False, True])
def test_the_same_message_fifty_times_after_completion_never_runs_again(
    site: Site, key: str, redelivered: bool | None
) -> None:
    raw = site.park(tasks.skipping, key)
    site.broker.deliver(raw)
    before = site.rows.wait_for(key, State.SUCCEEDED)

    site.broker.deliver(raw, redelivered=redelivered, times=50)
    site.broker.wait_until_empty()
    after = site.rows.row(key)
    assert site.journal.starts(key) == 1
    assert len(site.rows.effects(key)) == 1
    assert (after.token, after.attempts, after.finished_at) == (1, 1, before.finished_at)
    assert site.rows.refusals(key) == []


def test_fifty_copies_at_once_run_once_and_none_is_an_error(site: Site, key: str) -> None:
    before = {worker: len(worker.text()) for worker in site.workers}
    site.broker.deliver(site.park(tasks.skipping, key), times=50)

    site.rows.wait_for(key, State.SUCCEEDED)
    site.broker.wait_until_empty()
    assert site.journal.starts(key) == 1
    assert len(site.rows.effects(key)) == 1
    for worker, length in before.items():
        assert "ERROR" not in worker.text()[length:]


def test_a_copy_of_a_replaced_call_never_runs_again(site: Site, key: str) -> None:
    first = site.park(tasks.forgetful, key)
    site.broker.deliver(first)
    site.rows.wait_for(key, State.SUCCEEDED)
    second = site.send(tasks.forgetful, key).id
    assert result_of(second) == {"key": key, "attempt": 1}
    row = site.rows.wait_for(key, State.SUCCEEDED)
    assert (row.task_id, row.generation) == (second, 2)

    site.broker.deliver(first)
    site.broker.deliver(first, redelivered=True)
    site.broker.wait_until_empty()
    assert site.journal.starts(key) == 2
    assert len(site.rows.effects(key)) == 2
    assert site.rows.row(key).generation == 2


def test_a_copy_of_a_cancelled_and_replaced_call_never_runs(site: Site, key: str) -> None:
    first = site.park(tasks.forgetful, key, True)
    site.broker.deliver(first)
    site.journal.started(key)
    assert get_store().cancel(site.rows.row(key).digest, window=60)
    second = site.send(tasks.forgetful, key).id
    assert result_of(second) == {"key": key, "attempt": 1}

    site.broker.deliver(first)
    site.journal.open(f"{key}.1")
    site.broker.wait_until_empty()
    assert {entry["task_id"] for entry in site.journal.read("started", key)[1:]} == {second}
    assert site.journal.starts(key) == 2
    assert [effect.token for effect in site.rows.effects(key)] == [site.rows.row(key).token]
    assert site.journal.read("refused", key), "the cancelled attempt completed"


def test_a_cancelled_call_is_not_run_by_its_copies(site: Site, key: str) -> None:
    raw = site.park(tasks.skipping, key, True)
    site.broker.deliver(raw)
    site.journal.started(key)
    assert get_store().cancel(site.rows.row(key).digest, window=60)
    site.journal.open(f"{key}.1")

    site.broker.deliver(raw, times=3)
    site.broker.wait_until_empty()
    assert site.rows.row(key).state == State.CANCELLED
    assert site.journal.starts(key) == 1
    assert not site.rows.effects(key)


def test_an_expired_message_takes_no_key_and_a_new_call_runs(site: Site, key: str) -> None:
    site.send(tasks.skipping, key, options={"expires": datetime.now(UTC) - timedelta(seconds=5)})
    site.broker.wait_until_empty()
    assert site.rows.find(key) is None
    assert site.journal.starts(key) == 0

    site.send(tasks.skipping, key)
    assert site.rows.wait_for(key, State.SUCCEEDED).attempts == 1
