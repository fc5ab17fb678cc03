"""A process stands still for longer than its lease, and goes on when another one has its key."""

from __future__ import annotations

from typing import Any

import pytest

from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.states import State
from tests.crashes.shop import LEASE, completing, refusing, retrying, returning
from tests.crashes.stage import Ends, Stage
from tests.crashes.world import Mortal, stop
from tests.support.deliveries import ALIASES, APPS

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

DONE: Ends = {State.SUCCEEDED: 1}


def stopped_in_the_body(stage: Stage) -> Mortal:
    """Start a process that takes the message and stands still in the body."""
    stage.world.then["started"] = stop
    process = stage.world.start_mortal(stage.work)
    process.wait_until_stopped()
    stage.world.then.clear()
    return process


@pytest.mark.parametrize(
    ("task", "ends"),
    [
        pytest.param(completing, DONE, id="completion with an effect"),
        pytest.param(returning, {State.SUCCEEDED: 0}, id="completion by return"),
        pytest.param(retrying, DONE, id="retry"),
        pytest.param(refusing, {State.FAILED: 0}, id="failure"),
    ],
)
def test_a_process_that_was_taken_over_from_settles_nothing(task: Any, ends: Ends, alias: str) -> None:
    stage = Stage(alias, task)
    stage.call()
    late = stopped_in_the_body(stage)
    with shifted(LEASE + 1):
        successor = stopped_in_the_body(stage)
    held = stage.look()
    assert (held.state, held.token) == (State.RUNNING, 2)

    assert late.go_on() == 0
    assert stage.look() == held
    assert successor.go_on() == 0
    stage.recover()
    assert stage.faults(ends) == []
