"""The state of the abstract atomic run: a key, its lock, its messages, its workers, and who has died."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from django_idempotent_tasks.states import State
from tests.crashes.model.world import CANCELLED, FAILED, PENDING, SUCCEEDED, Decision, Row, decision

#: Where poison goes in this model: as it does, this state blocks other calls, and FAILED does not.
REVIEW = int(State.REVIEW)

#: So many deaths, and the body is not started again.
MAX_CRASHES = 2

Phase = Literal["idle", "reading", "counting", "claiming", "running", "recording", "publishing", "bereaved"]
Ending = Literal["", "retry", "fail", "bury"]
#: Who has the key's lock: nobody, a run, or the server's process of a run that has died.
Lock = Literal["", "run", "ghost"]


@dataclass(frozen=True)
class AtomicRules:
    """The parts of an atomic run, so that a test can take one away."""

    #: Claim, body and completion are one transaction.
    one_transaction: bool = True
    #: A claim tests the state and the token that were read.
    claims_compare: bool = True
    #: A record leaves a row alone that has moved on.
    record_compares: bool = True
    #: What is recorded keeps the message, so that the sweeper can send it.
    record_stores: bool = True
    #: A copy that was delivered again counts its start as a crash before it begins.
    counts_starts: bool = True
    #: A start that ends takes its count back.
    takes_back: bool = True
    #: A parent records the death of its child, unless the start was counted.
    hook: bool = True
    hook_knows_counted: bool = True
    #: A key whose workers die again and again is given up.
    bounds_poison: bool = True
    #: A claim of a finished key remembers the call that it replaces.
    remembers: bool = True
    #: A copy that finds the key held is sent again later.
    comes_back: bool = True
    sweeper: bool = True


class Faults(NamedTuple):
    """How often each thing may still happen."""

    deaths: int = 0  # of a child, its parent lives
    kills: int = 0  # of a whole worker
    ghosts: int = 0  # the server does not notice at once
    copies: int = 0
    retries: int = 0
    failures: int = 0
    cuts: int = 0
    outages: int = 0
    cancels: int = 0


class Message(NamedTuple):
    """A call in the queue; ``again``: the broker says that it has delivered it before."""

    call: str
    again: bool = False


class Worker(NamedTuple):
    """One worker with one message; ``seen`` is what it read, ``counted`` the token of its counted start."""

    phase: Phase = "idle"
    call: str = ""
    again: bool = False
    seen: tuple[int, int] = (0, 0)
    decided: Decision = "end"
    counted: int = 0
    ending: Ending = ""


class World(NamedTuple):
    """Everything; ``died`` counts deaths, ``unknown`` those that nobody could count.

    ``left``: counts of starts that met another copy and came back without beginning.
    """

    row: Row | None
    queue: tuple[Message, ...]
    workers: tuple[Worker, ...]
    faults: Faults
    lock: Lock = ""
    crashes: int = 0
    died: int = 0
    unknown: int = 0
    left: int = 0
    answered: frozenset[str] = frozenset()
    effects: frozenset[str] = frozenset()
    generations: frozenset[int] = frozenset()
    broken: str = ""

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to do, and nothing was left undone."""
        row = self.row
        if row is None or self.queue or self.lock or any(worker.phase != "idle" for worker in self.workers):
            return False
        done = row.state == SUCCEEDED and (row.generation in self.generations)
        return done or row.state in {REVIEW, FAILED, CANCELLED}


def begin(*calls: str, workers: int = 2, reserved: bool = False, faults: Faults) -> World:
    """All calls wait in the queue; the first may have been reserved."""
    row = Row(PENDING, 0, 1, calls[0], None, None, calls[0]) if reserved else None
    return World(row, tuple(sorted(map(Message, calls))), (Worker(),) * workers, faults)


def decided_by(world: World, worker: Worker) -> Decision:
    """What the product decides about this call; a counted start is never told to wait."""
    if is_as_counted(world.row, worker):
        return "open"
    return decision(world.row, worker.call, 0, answered=worker.call in world.answered)


def is_as_counted(row: Row | None, worker: Worker) -> bool:
    """Whether nobody has claimed the key since this start was counted."""
    return row is not None and bool(worker.counted) and row.token == worker.counted


def token_and_state(row: Row | None) -> tuple[int, int]:
    """What a claim and a record compare."""
    return (row.token, row.state) if row is not None else (0, 0)


def queued(world: World, call: str, *, again: bool = False) -> World:
    """The world with one more message."""
    return world._replace(queue=tuple(sorted((*world.queue, Message(call, again)))))


def put(world: World, number: int, worker: Worker) -> World:
    """The world with one worker changed; workers are all alike."""
    workers = [*world.workers]
    workers[number] = worker
    return world._replace(workers=tuple(sorted(workers)))


def fewer(world: World, fault: str) -> World:
    """The world in which this has happened once more."""
    left = getattr(world.faults, fault) - 1
    return world._replace(faults=world.faults._replace(**{fault: left}))
