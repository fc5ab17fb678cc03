"""What a process of ours is doing when it dies or when a signal strikes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import connections, transaction

import django_idempotent_tasks
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.messages.relay import relay
from django_idempotent_tasks.running import heartbeat
from django_idempotent_tasks.states import State
from tests.crashes.shop import (
    LEASE,
    committing,
    completing,
    following,
    recommitting,
    refusing,
    retrying,
    returning,
    stepping,
    undoing,
)
from tests.crashes.stage import Ends, Stage
from tests.crashes.world import DEAD, die
from tests.support.glitch import Glitch, Spot, files_of

Act = Callable[[Stage], object]

PACKAGE = Path(django_idempotent_tasks.__file__).parent
#: The rooms that a call passes from its sending to its end, and what heals it: all but what only reads.
ROOMS = ("running", "ledger", "ledger/stores", "messages", "sending", "sweeper", "task")
FILES = files_of(
    PACKAGE / "signals.py",
    *(PACKAGE / room for room in ROOMS),
    # clock.py is the tests' own; session.py reads what the driver knows, of more or fewer connections
    without=["clock.py", "session.py"],
)
#: Where Django commits and rolls back.
TRANSACTIONS = files_of(Path(transaction.__file__))


@dataclass(frozen=True)
class Scenario:
    """How it begins, what is done by the process that is struck, and how it must end."""

    name: str
    prepare: Act
    act: Act
    task: Any = completing
    state: State = State.SUCCEEDED
    effects: int = 1
    #: With what errors its deliveries may end besides the one that strikes; Celery rejects a message
    #: in whose ``retry()`` an error is raised.
    errors: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name

    def begin(self, alias: str) -> Stage:
        """Make a stage on which it is about to happen."""
        stage = Stage(alias, self.task)
        self.prepare(stage)
        return stage

    @property
    def ends(self) -> Ends:
        """How it must end."""
        return {self.state: self.effects}


def _call(stage: Stage) -> None:
    stage.call()


def _work(stage: Stage) -> None:
    stage.worker.work()


def _work_with_a_new_relay(stage: Stage) -> None:
    """As in a process that was forked: no connection is kept from before."""
    relay.forget()
    stage.worker.work()


def _work_after_the_lease(stage: Stage) -> None:
    with shifted(LEASE + 1):
        stage.worker.work()


def _sweep_after_the_lease(stage: Stage) -> None:
    with shifted(LEASE + 1):
        stage.sweep()


def _die_in_the_body(stage: Stage) -> None:
    stage.call()
    stage.world.then["started"] = die
    code = stage.world.run_mortal(stage.worker.work)
    assert code == DEAD
    stage.world.then.clear()
    stage.world.lose_worker()


def _die_after_a_step(stage: Stage) -> None:
    """Let the first attempt end between its steps: the next one finds the value of the first."""
    stage.call()
    stage.world.then["stepped"] = die
    code = stage.world.run_mortal(stage.worker.work)
    assert code == DEAD
    stage.world.then.clear()
    stage.world.lose_worker()


def _lose_worker_and_message(stage: Stage) -> None:
    _die_in_the_body(stage)
    stage.world.lose_messages()


def _call_again_meanwhile(stage: Stage) -> None:
    _lose_worker_and_message(stage)
    stage.call()


def _deliver_twice(stage: Stage) -> None:
    task_id = stage.call()
    stage.work()
    stage.call(task_id)


COMPLETION = Scenario("a first run that completes with an effect", _call, _work)
RETURN = Scenario("a first run that completes by return", _call, _work, returning, effects=0)
RETRY = Scenario("a run that is retried once", _call, _work, retrying, errors=("Retry", "Reject"))
TAKEOVER = Scenario("a takeover", _die_in_the_body, _work_after_the_lease)
REPLAY = Scenario("a replay", _deliver_twice, _work)
DUPLICATE = Scenario("a refused duplicate", _call_again_meanwhile, _work)
FAILURE = Scenario(
    "a permanent failure", _call, _work, refusing, State.FAILED, effects=0, errors=("PermanentError",)
)
STEPS = Scenario("a first run that takes steps", _call, _work, stepping, effects=2)
STEPS_AGAIN = Scenario(
    "a takeover that takes steps", _die_after_a_step, _work_after_the_lease, stepping, effects=2
)
FOLLOW_UP = Scenario(
    "a run that is followed by another one", _call, _work_with_a_new_relay, following, effects=2
)
SWEEP = Scenario("a sweep", _lose_worker_and_message, _sweep_after_the_lease)

ATOMIC = Scenario("an atomic run", _call, _work, committing)
ATOMIC_AGAIN = Scenario("an atomic run after one that died", _die_in_the_body, _work, committing)
ATOMIC_RETRY = Scenario(
    "an atomic run that is retried once", _call, _work, recommitting, errors=("Retry", "Reject")
)
ATOMIC_REPLAY = Scenario("a replay of an atomic run", _deliver_twice, _work, committing)
ATOMIC_FAILURE = Scenario(
    "a permanent failure of an atomic run",
    _call,
    _work,
    undoing,
    State.FAILED,
    effects=0,
    errors=("PermanentError",),
)

LEASED_SCENARIOS = (
    COMPLETION,
    RETURN,
    RETRY,
    TAKEOVER,
    REPLAY,
    DUPLICATE,
    FAILURE,
    STEPS,
    STEPS_AGAIN,
    FOLLOW_UP,
    SWEEP,
)
ATOMIC_SCENARIOS = (ATOMIC, ATOMIC_AGAIN, ATOMIC_RETRY, ATOMIC_REPLAY, ATOMIC_FAILURE)
SCENARIOS = LEASED_SCENARIOS + ATOMIC_SCENARIOS


def spots_of(scenario: Scenario, alias: str, files: frozenset[str] = FILES) -> list[Spot]:
    """List the lines of one clean run, the second one: caches are filled by then, as in a worker."""
    for _ in range(2):
        stage = scenario.begin(alias)
        connections[alias].close()  # as they are in a process that was forked for the run
        heartbeat._new_heart()
        with _silence(), _statements(alias) as statements:
            glitch = Glitch(files, lambda: _traces(stage, statements))  # noqa: B023
            spots = glitch.spots(lambda: scenario.act(stage))  # noqa: B023
        stage.recover()
        assert stage.faults(scenario.ends) == []
    return spots


@contextmanager
def _silence() -> Iterator[None]:
    """Without log records, whose filter comes by lines of ours: a process that is to die makes none."""
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def before_effects(spots: list[Spot]) -> list[Spot]:
    """Choose the last line before each thing that can be seen from outside, and the last of all."""
    return list({spot.marker: spot for spot in spots}.values())


def after_effects(spots: list[Spot]) -> list[Spot]:
    """Choose the first line of all, and the first after each thing that can be seen from outside."""
    return list({spot.marker: spot for spot in reversed(spots)}.values())


def first_visits(spots: list[Spot]) -> list[Spot]:
    """Choose each line of the code once."""
    return sorted({spot.place: spot for spot in reversed(spots)}.values(), key=lambda spot: spot.number)


def _traces(stage: Stage, statements: list[str]) -> object:
    """What has been done to the database and to the world so far."""
    connection = connections[stage.alias]
    return len(statements), connection.in_atomic_block, stage.world.told


@contextmanager
def _statements(alias: str) -> Iterator[list[str]]:
    """Collect what is executed on the connection."""
    seen: list[str] = []

    def note(execute: Callable[..., Any], sql: str, *arguments: Any) -> Any:
        seen.append(sql)
        return execute(sql, *arguments)

    with connections[alias].execute_wrapper(note):
        yield seen
