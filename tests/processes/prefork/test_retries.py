"""A retry is a further attempt of the same key, however it was asked for."""

from __future__ import annotations

import pytest

from django_idempotent_tasks.states import State
from tests.sample import death, endings
from tests.support.results import result_of
from tests.support.waiting import eventually
from tests.support.workers.site import Site

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("pair")]


@pytest.mark.parametrize(
    "how", ["self", "with cause", "current task", "registry", "no throw", "new arguments"]
)
def test_two_retries_and_a_success_are_three_attempts_of_one_key(site: Site, key: str, how: str) -> None:
    call = site.send(endings.retried, key, how).id

    row = site.rows.wait_for(key, State.SUCCEEDED)
    site.broker.wait_until_empty()
    assert (row.attempts, row.token, row.crashes, row.task_id) == (3, 3, 0, call)
    attempts = [entry for entry in site.journal.read("started") if entry["key"].startswith(key)]
    assert [entry["attempt"] for entry in attempts] == [1, 2, 3]
    assert len({entry["downstream"] for entry in attempts}) == 1
    assert not any(entry["previous_attempt_died"] for entry in attempts)
    changed = key if how != "new arguments" else f"{key} (changed) (changed)"
    assert [effect.attempt for effect in site.rows.effects(changed)] == [3]
    assert site.rows.count() == 1


def test_errors_that_celery_retries_by_itself_are_attempts_of_one_key(site: Site, key: str) -> None:
    call = site.send(endings.autoretried, key).id

    assert result_of(call) == {"key": key, "attempt": 3}
    row = site.rows.wait_for(key, State.SUCCEEDED)
    assert (row.attempts, row.crashes) == (3, 0)
    assert len(site.rows.effects(key)) == 1
    assert site.rows.count() == 1


def test_a_retry_that_is_not_due_waits_and_its_copies_do_not_run(site: Site, key: str) -> None:
    raw = site.park(endings.postponed, key)
    site.broker.deliver(raw)
    due = site.rows.wait_for(key, State.RETRY).open_at
    assert due is not None

    site.broker.deliver(raw, redelivered=True, times=5)
    done = site.rows.wait_for(key, State.SUCCEEDED)
    site.broker.wait_until_empty()
    assert site.journal.starts(key) == 2
    assert site.journal.started(key, attempt=2)["at"] >= due.timestamp()
    assert (done.attempts, done.token) == (2, 2)
    assert len(site.rows.effects(key)) == 1


def test_retries_that_are_used_up_leave_one_failed_key_with_its_error(site: Site, key: str) -> None:
    call = site.send(endings.hopeless, key).id

    error = result_of(call)
    row = site.rows.wait_for(key, State.FAILED)
    assert type(error).__name__ == "Busy"
    assert "Busy" in site.rows.stored(key)["error"]
    assert row.attempts == 3
    assert row.message is not None
    site.broker.wait_until_empty()


def test_a_copy_of_an_earlier_attempt_does_not_run_a_retry_that_is_due(site: Site, key: str) -> None:
    raw = site.park(death.acting, key, ["retry where nobody listens"])
    site.broker.deliver(raw)
    site.rows.wait_for(key, State.RETRY)
    retry = eventually(site.broker.take_parked, "the retry is sent")

    site.broker.deliver(raw, redelivered=True, times=3)
    site.broker.deliver(raw)
    site.broker.wait_until_empty()
    assert site.journal.starts(key) == 1
    assert site.rows.row(key).state == State.RETRY

    site.broker.deliver(retry)
    assert site.rows.wait_for(key, State.SUCCEEDED).attempts == 2
    assert site.journal.starts(key) == 2
