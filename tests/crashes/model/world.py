"""The state of the abstract protocol: one key, its messages, its workers, and what judges the past."""

from __future__ import annotations

from functools import cache
from typing import Literal, NamedTuple
from uuid import UUID

from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger.rules import Step, decide
from django_idempotent_tasks.ledger.values import Call, Entry
from django_idempotent_tasks.states import Reason, State

# Plain values throughout: an Enum is hashed in Python, and the search hashes little else.
PENDING, RUNNING, RETRY = int(State.PENDING), int(State.RUNNING), int(State.RETRY)
FAILED, SUCCEEDED, CANCELLED = int(State.FAILED), int(State.SUCCEEDED), int(State.CANCELLED)

Phase = Literal["idle", "reading", "claiming", "running", "publishing"]
Decision = Literal["insert", "open", "reopen", "own", "wait", "end"]

#: What a sender does next: reserve and commit (or roll back), publish, nothing.
Sending = Literal["reserving", "publishing", "sent", "undone"]


class Row(NamedTuple):
    """The key's row. ``open``: a lease is over or a retry due; ``past``: the retention is over."""

    state: int
    token: int
    generation: int
    task_id: str
    runner: str | None
    owner: int | None
    message: str | None
    open: bool = False
    past: bool = False


class Worker(NamedTuple):
    """One worker with one message.

    ``decision`` and ``seen`` (token and state) are what it read; ``living``: its lease has not been
    over since the grant; ``told``: it knows that it is over.
    """

    phase: Phase = "idle"
    call: str = ""
    owner: int = 0
    decision: Decision = "end"
    seen: tuple[int, int] = (0, 0)
    token: int = 0
    generation: int = 0
    living: bool = False
    told: bool = False


class Faults(NamedTuple):
    """How often each thing may still happen."""

    crashes: int = 0
    losses: int = 0
    copies: int = 0
    pauses: int = 0
    retries: int = 0
    failures: int = 0
    outages: int = 0
    cuts: int = 0
    cancels: int = 0
    rollbacks: int = 0
    dead_senders: int = 0


class Sender(NamedTuple):
    """One producer in a transaction of its own."""

    call: str
    phase: Sending = "reserving"


class World(NamedTuple):
    """Everything; ``done``: completed generations; ``served``: completed calls; ``top``: highest token."""

    row: Row | None
    queue: tuple[str, ...]
    workers: tuple[Worker, ...]
    faults: Faults
    answered: frozenset[str] = frozenset()
    done: frozenset[int] = frozenset()
    served: frozenset[str] = frozenset()
    top: int = 0
    broken: str = ""
    senders: tuple[Sender, ...] = ()

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to do, and nothing was left undone."""
        idle = all(worker.phase == "idle" for worker in self.workers) and not self.queue
        if self.row is None:
            return idle and bool(self.senders) and all(sender.phase == "undone" for sender in self.senders)
        told = all(sender.phase in {"sent", "undone"} for sender in self.senders)
        return idle and told and self.row.state in {FAILED, SUCCEEDED, CANCELLED}


_DECISIONS: dict[Step, Decision] = {
    Step.INSERT: "insert",
    Step.OPEN: "open",
    Step.REOPEN: "reopen",
    Step.OWN: "own",
    Step.WAIT: "wait",
}


@cache
def decision(row: Row | None, call: str, owner: int, *, answered: bool) -> Decision:
    """What the product itself decides about this call on this row."""
    identity = Identity(UUID(int=1), scope=None, key_text="key", fingerprint=None)
    entry = None if row is None else _entry(row, answered=answered)
    verdict = decide(entry, Call(identity, "task", call, None), owner=str(owner), on_failed="rerun")
    return _DECISIONS.get(verdict.step, "end")


def _entry(row: Row, *, answered: bool) -> Entry:
    timed = row.state in {RUNNING, RETRY, SUCCEEDED}
    is_open = row.past if row.state == SUCCEEDED else row.open
    return Entry(
        state=State(row.state),
        reason=Reason.RETRIES_USED_UP if row.state == FAILED else Reason.NONE,
        token=row.token,
        generation=row.generation,
        attempts=1,
        crashes=0,
        task="task",
        scope=None,
        task_id=row.task_id,
        runner_task_id=row.runner,
        owner=None if row.owner is None else str(row.owner),
        fingerprint=None,
        result=None,
        is_open=is_open if timed else None,
        opens_in=0.0 if timed else None,
        was_answered=answered,
    )


def start(*calls: str, workers: int = 2, reserved: bool = False, faults: Faults) -> World:
    """All calls wait in the queue; the first may have been reserved."""
    row = Row(PENDING, 0, 1, calls[0], None, None, calls[0]) if reserved else None
    return World(row, tuple(sorted(calls)), (Worker(),) * workers, faults)


def sending(*calls: str, workers: int = 2, faults: Faults) -> World:
    """Each call has a sender that reserves it."""
    return World(None, (), (Worker(),) * workers, faults, senders=tuple(map(Sender, calls)))


def queued(world: World, call: str) -> World:
    """The world with one more message."""
    return world._replace(queue=tuple(sorted((*world.queue, call))))
