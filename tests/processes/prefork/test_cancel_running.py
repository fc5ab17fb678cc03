"""``cancel`` against bodies that really run: the first of cancel and completion wins."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from celery.exceptions import TaskRevokedError

from django_idempotent_tasks.models import AnsweredCall
from django_idempotent_tasks.states import State
from tests.support.waiting import PATIENCE, eventually
from tests.support.workers.processes import Worker
from tests.support.workers.reserving import charge, sending_to, working
from tests.support.workers.site import Site

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("worker", "_sending")]

ROUNDS = 30


@pytest.fixture(scope="module")
def worker(own_site: Site) -> Iterator[Worker]:
    with working(own_site, "cancelled", concurrency=2) as worker:
        yield worker


def test_a_cancelled_body_runs_on_but_cannot_complete_its_key(own_site: Site, key: str) -> None:
    result = charge.delay(key, gated=True)
    own_site.journal.started(key)
    assert charge.cancel(task_id=result.id) == "cancelled"
    own_site.journal.open(f"{key}.1")
    own_site.journal.wait_for("refused", key)
    own_site.broker.wait_until_empty()
    assert own_site.rows.row(key).state == State.CANCELLED
    assert own_site.rows.effects(key) == []
    assert own_site.journal.starts(key) == 1
    with pytest.raises(TaskRevokedError):
        result.get(timeout=PATIENCE)


def test_terminate_ends_the_body_and_the_worker_goes_on(own_site: Site, worker: Worker, key: str) -> None:
    result = charge.delay(key, gated=True)
    child = own_site.journal.started(key)["pid"]
    assert charge.cancel(task_id=result.id, terminate=True) == "cancelled"
    eventually(lambda: child not in worker.children(), "the child has ended")
    own_site.broker.wait_until_empty()
    assert own_site.rows.row(key).state == State.CANCELLED

    charge.delay(f"{key}-next")
    own_site.rows.wait_for(f"{key}-next", State.SUCCEEDED)
    assert own_site.journal.starts(key) == 1
    assert own_site.rows.effects(key) == []


def test_a_new_call_is_accepted_while_the_cancelled_body_still_runs(own_site: Site, key: str) -> None:
    first = charge.delay(key, gated=True)
    own_site.journal.started(key)
    charge.cancel(task_id=first.id)
    second = charge.delay(key)
    assert (second.duplicate, second.id == first.id) == (False, False)

    row = own_site.rows.wait_for(key, State.SUCCEEDED)
    own_site.journal.open(f"{key}.1")
    own_site.broker.wait_until_empty()
    assert row.task_id == second.id
    assert [effect.token for effect in own_site.rows.effects(key)] == [row.token]
    replaced = AnsweredCall.objects.using(own_site.rows.alias).get(task_id=first.id)
    assert replaced.state == State.CANCELLED


def test_a_cancelled_copy_that_is_still_queued_does_not_run(own_site: Site, key: str) -> None:
    with sending_to(own_site):
        busy = [f"{key}-busy-{number}" for number in range(2)]
        for each in busy:
            charge.delay(each, gated=True)
            own_site.journal.started(each)
        first = charge.delay(key)
        eventually(lambda: own_site.broker.waiting() + own_site.broker.unacknowledged() == 3, "it is queued")
        assert charge.cancel(task_id=first.id) == "cancelled"
        second = charge.delay(key)
        own_site.journal.open(*(f"{each}.1" for each in busy))

    own_site.rows.wait_for(key, State.SUCCEEDED)
    own_site.broker.wait_until_empty()
    starts = own_site.journal.read("started", key)
    assert [start["task_id"] for start in starts] == [second.id]


def test_of_cancel_and_completion_exactly_one_wins(own_site: Site, key: str) -> None:
    answers = [race(own_site, f"{key}-{number}", is_late=number % 3 == 0) for number in range(ROUNDS)]
    own_site.broker.wait_until_empty()
    assert set(answers) <= {"cancelled", "finished", "finishing"}
    assert len(set(answers)) > 1, "each side must win now and then, or nothing was raced"


def race(site: Site, key: str, *, is_late: bool) -> str:
    """Let a body go and cancel it at the same moment; what ``cancel`` says must be what happened."""
    result = charge.delay(key, gated=True)
    site.journal.started(key)
    together = threading.Barrier(2)

    def let_go() -> None:
        together.wait()
        site.journal.open(f"{key}.1")

    opener = threading.Thread(target=let_go)
    opener.start()
    together.wait()
    if is_late:
        site.rows.wait_for(key, State.SUCCEEDED)
    answer: str = charge.cancel(task_id=result.id)
    opener.join()
    expected = State.CANCELLED if answer == "cancelled" else State.SUCCEEDED
    row = site.rows.wait_for(key, expected)
    effects: list[Any] = site.rows.effects(key)
    assert len(effects) == (0 if answer == "cancelled" else 1), (answer, row.token)
    return answer
