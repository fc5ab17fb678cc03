"""A real signal from another process strikes while a statement is under way in PostgreSQL."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from billiard.common import _shutdown_cleanup  # type: ignore[attr-defined]  # not in its stubs
from billiard.pool import SIG_SOFT_TIMEOUT, soft_timeout_sighandler

from django_idempotent_tasks.states import State
from tests.crashes.shop import completing, returning
from tests.crashes.stage import Sight, Stage
from tests.crashes.world import Mortal
from tests.support.deliveries import ALIASES, APPS
from tests.support.ledger.slow_server import CLAIM, COMMIT, COMPLETION, Server, Slow
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
]

SOFT_LIMIT, SHUTDOWN, INTERRUPT = SIG_SOFT_TIMEOUT, signal.SIGTERM, signal.SIGINT

each_order = pytest.mark.parametrize(
    "at_once", [True, False], ids=["which goes on", "until it is waited for"]
)
each_exit = pytest.mark.parametrize(
    ("number", "error"),
    [
        pytest.param(SHUTDOWN, "SystemExit", id="shutdown"),
        pytest.param(INTERRUPT, "KeyboardInterrupt", id="interrupt"),
    ],
)
each_settlement = pytest.mark.parametrize(
    ("slow", "task", "effects"),
    [
        pytest.param(COMMIT, completing, 1, id="commit"),
        pytest.param(COMPLETION, returning, 0, id="completion"),
    ],
)


@each_order
@each_settlement
def test_a_completion_that_a_soft_time_limit_leaves_under_way_is_recognised(
    slow: Slow, task: Any, effects: int, at_once: bool, postgresql: str
) -> None:
    for _ in range(10):
        stage = Stage(postgresql, task)
        sight = struck(stage, slow, SOFT_LIMIT, at_once=at_once)
        assert (sight.state, sight.effects, endings(stage)) == (State.SUCCEEDED, effects, [(None, False)])
        assert stage.recover() == sight
        assert stage.faults({State.SUCCEEDED: effects}) == []


@each_order
@each_exit
@each_settlement
def test_a_completion_that_an_exit_leaves_under_way_is_done_once_in_the_end(
    slow: Slow, task: Any, effects: int, number: int, error: str, at_once: bool, postgresql: str
) -> None:
    """The driver cancels the statement, where it is not too late for that."""
    for _ in range(5):
        stage = Stage(postgresql, task)
        sight = struck(stage, slow, number, at_once=at_once)
        assert endings(stage) == [(error, True)]
        assert sight.state in {State.SUCCEEDED, State.RETRY}
        assert sight.effects == (effects if sight.state is State.SUCCEEDED else 0)
        stage.recover()
        assert stage.faults({State.SUCCEEDED: effects}) == []


@each_order
@each_exit
def test_a_claim_that_an_exit_leaves_under_way_is_taken_over(
    number: int, error: str, at_once: bool, postgresql: str
) -> None:
    stage = Stage(postgresql)
    struck(stage, CLAIM, number, at_once=at_once)
    assert endings(stage) == [(error, True)]
    stage.recover()
    assert stage.faults({State.SUCCEEDED: 1}) == []


@each_order
def test_a_claim_that_a_soft_time_limit_leaves_under_way_is_ended_or_taken_over(
    at_once: bool, postgresql: str
) -> None:
    stage = Stage(postgresql)
    struck(stage, CLAIM, SOFT_LIMIT, at_once=at_once)
    assert endings(stage) == [("SoftTimeLimitExceeded", False)]
    stage.recover()
    assert stage.faults({State.FAILED: 0, State.SUCCEEDED: 1}) == []


def struck(stage: Stage, slow: Slow, number: int, *, at_once: bool) -> Sight:
    """Send a signal to a process whose statement waits; the key when process and statement have ended.

    The statement goes on ``at_once``, or only when the process waits for it again or has given it up.
    """
    server = Server(stage.alias)
    stage.call()
    with server.holding_up(slow):
        process = stage.world.start_mortal(lambda: work_in_the_pool(stage))
        first = server.wait_until_held_up()
        os.kill(process.pid, number)
        if not at_once:
            eventually(lambda: server.waiting() - first or is_gone(process), "it goes on", every=0.002)
        server.let_go()
        assert process.join() == 0
    return stage.look()


def work_in_the_pool(stage: Stage) -> None:
    """Work with the signal handlers of Celery's pool."""
    signal.signal(SOFT_LIMIT, soft_timeout_sighandler)
    signal.signal(SHUTDOWN, _shutdown_cleanup)
    signal.signal(INTERRUPT, signal.default_int_handler)
    stage.work()


def is_gone(process: Mortal) -> bool:
    """Whether a process has ended."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def endings(stage: Stage) -> list[tuple[str | None, bool]]:
    """How Celery saw the deliveries end, and whether the process ended with them."""
    return [(end["error"], end["is_exit"]) for end in stage.ended]
