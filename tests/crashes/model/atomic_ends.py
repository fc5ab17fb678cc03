"""How an atomic run ends: by its commit, by a record of what was rolled back, or by a death."""

from __future__ import annotations

from tests.crashes.model.atomic_world import (
    REVIEW,
    AtomicRules,
    Worker,
    World,
    is_as_counted,
    put,
    queued,
    token_and_state,
)
from tests.crashes.model.world import FAILED, RETRY, SUCCEEDED, Row

IDLE = Worker()


def commit(world: World, worker: Worker, row: Row) -> World:
    """The effects and the completion are there at one moment; never twice for a call or a generation."""
    broken = ""
    if worker.call in world.effects:
        broken = f"{worker.call} was committed twice"
    elif row.generation in world.generations:
        broken = f"generation {row.generation} was committed twice"
    return world._replace(
        row=row,
        lock="",
        effects=world.effects | {worker.call},
        generations=world.generations | {row.generation},
        broken=broken or world.broken,
    )


def dies(world: World, number: int, worker: Worker) -> World:
    """A whole worker is gone: its transaction too, sooner or later; the broker delivers the message again.

    Nobody has counted the death of a message's first start.
    """
    begun = worker.phase in {"running", "recording"} or (worker.counted > 0 and worker.phase != "publishing")
    lost = world._replace(died=world.died + begun, unknown=world.unknown + (begun and not worker.again))
    if worker.phase == "running":
        ghost = bool(world.faults.ghosts)
        lost = lost._replace(
            lock="ghost" if ghost else "", faults=world.faults._replace(ghosts=world.faults.ghosts - ghost)
        )
    return queued(put(lost, number, IDLE), worker.call, again=True)


def takes_back(world: World, worker: Worker, rules: AtomicRules) -> bool:
    """Whether the row still says what this start has counted; another claim may have come in between."""
    return rules.takes_back and is_as_counted(world.row, worker)


def bury(world: World, number: int, worker: Worker) -> tuple[str, World]:
    """Too many have died: nothing of the body is started, and the key is given up after the rollback."""
    burying = worker._replace(phase="recording", ending="bury")
    return f"{worker.call} is poison", put(world, number, burying)


def record(world: World, number: int, worker: Worker, rules: AtomicRules) -> tuple[str, World]:
    """A leased claim and its settlement in one transaction, unless the key is held or has moved on."""
    row, call = world.row, worker.call
    moved = token_and_state(row) != worker.seen
    if world.lock or (moved and rules.record_compares):
        if row is not None and row.state == SUCCEEDED and row.task_id == call:
            return f"{call} has succeeded", put(world, number, IDLE)
        left = world._replace(left=world.left + bool(worker.counted))
        return f"{call} cannot record", queued(put(left, number, IDLE), call)
    message = call if rules.record_stores else None
    old = row or Row(0, 0, 1, call, None, None, None)
    crashes = world.crashes
    if worker.decided == "reopen":
        generation = old.generation + (old.state == SUCCEEDED)
        old, crashes = Row(0, old.token, generation, call, None, None, None), 0
        world = world._replace(
            answered=world.answered | ({row.task_id} if row and rules.remembers else set())
        )
    crashes -= takes_back(world, worker, rules)
    state = {"retry": RETRY, "fail": FAILED}.get(worker.ending, REVIEW)
    new = old._replace(state=state, token=old.token + 1, message=message, open=False)
    after = world._replace(row=new, crashes=crashes)
    if state != RETRY:
        return f"{call} records its failure", put(after, number, IDLE)
    return f"{call} records its retry", put(after, number, worker._replace(phase="publishing"))
