"""Children that run a task in shadow mode die: what becomes of the call is Celery's, and the ledger knows."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import Reason, State
from tests.processes.adopting.watched import fleeting, lasting, lasting_atomic
from tests.support.results import result_of
from tests.support.waiting import eventually
from tests.support.workers import processes
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

pytestmark = pytest.mark.process

MODULE = ("--include", "tests.processes.adopting.watched")


@pytest.fixture(scope="module")
def _worker(own_site: Site) -> Iterator[Worker]:
    with own_site.running("watched", "--concurrency", "3", *MODULE) as worker:
        yield worker


@pytest.fixture
def worker(_worker: Worker) -> Worker:
    """A living worker with three children, shared by these tests."""
    assert _worker.is_alive
    return _worker


def begun(site: Site, key: str, times: int = 1) -> dict[str, Any]:
    """Wait until so many bodies of a key have begun; the last of them."""
    return site.journal.wait_for("started", key, count=times)


def ended(site: Site, key: str, state: State, **columns: Any) -> IdempotencyKey:
    """The key's row in this state, with nothing stored that could be sent, and these values."""
    row = site.rows.wait_for(key, state)
    assert {name: getattr(row, name) for name in columns} == columns
    assert row.message is None
    return row


def test_a_call_whose_child_is_killed_runs_again_as_celery_has_it_and_its_key_goes_along(
    own_site: Site, worker: Worker, key: str
) -> None:
    keys = {f"{key}-{task.name}": task for task in (lasting, lasting_atomic)}
    calls = {each: own_site.send(task, each).id for each, task in keys.items()}
    for each in keys:
        processes.kill(begun(own_site, each)["pid"])
    for each in keys:
        begun(own_site, each, times=2)
        own_site.journal.open(each)
        assert result_of(calls[each]) == each
        ended(own_site, each, State.SUCCEEDED, crashes=1, attempts=2, task_id=calls[each])
        assert (own_site.journal.starts(each), own_site.rows.refusals(each)) == (2, [])
    assert worker.is_alive


def test_a_call_that_a_time_limit_ends_has_failed_and_is_not_run_again(
    own_site: Site, worker: Worker, key: str
) -> None:
    limits = {"time_limit": "TimeLimitExceeded", "soft_time_limit": "SoftTimeLimitExceeded"}
    calls = {each: own_site.send(lasting, f"{key}-{each}", options={each: 2}).id for each in limits}
    for each, error in limits.items():
        assert type(result_of(calls[each])).__name__ == error
        row = ended(own_site, f"{key}-{each}", State.FAILED, attempts=1, crashes=0)
        assert error in (row.result or "")
        assert own_site.journal.starts(f"{key}-{each}") == 1
    own_site.broker.wait_until_empty()
    assert worker.is_alive


def test_what_celery_loses_with_a_child_stays_lost_and_the_next_call_gets_the_key(
    own_site: Site, worker: Worker, key: str
) -> None:
    lost = own_site.send(fleeting, key).id
    processes.kill(begun(own_site, key)["pid"])
    assert type(result_of(lost)).__name__ == "WorkerLostError"
    ended(own_site, key, State.RETRY, crashes=1)
    own_site.journal.open(key)
    assert result_of(own_site.send(fleeting, key).id) == key
    ended(own_site, key, State.SUCCEEDED)
    assert (own_site.journal.starts(key), own_site.rows.refusals(key)) == (2, [])
    assert worker.is_alive


@pytest.mark.slow
def test_a_call_that_a_cold_shutdown_ends_gives_its_key_back_and_runs_elsewhere(
    own_site: Site, worker: Worker, key: str
) -> None:
    arguments = ("--queues", key, "--concurrency", "1", *MODULE)
    with own_site.running("stopping", *arguments, PROJ_CELERY=json.dumps({})) as stopping:
        own_site.send(lasting, key, options={"queue": key})
        begun(own_site, key)
        stopping.process.send_signal(signal.SIGQUIT)
        stopping.wait()
    ended(own_site, key, State.RETRY, reason=Reason.RELEASED, crashes=0)
    own_site.journal.open(key)
    with own_site.running("heir", *arguments):
        eventually(lambda: own_site.journal.starts(key) == 2, "it runs again")
        ended(own_site, key, State.SUCCEEDED, crashes=0)
    assert worker.is_alive
