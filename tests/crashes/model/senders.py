"""What senders and cancels do: reserve, commit or roll back, publish, die in between."""

from __future__ import annotations

from collections.abc import Iterator

from tests.crashes.model.rules import Rules
from tests.crashes.model.world import (
    CANCELLED,
    PENDING,
    RETRY,
    RUNNING,
    SUCCEEDED,
    Row,
    Sender,
    Sending,
    Worker,
    World,
    decision,
    queued,
)

Next = Iterator[tuple[str, World]]

#: The name of nobody: a sender claims nothing.
NOBODY = -1


def sends(world: World, rules: Rules) -> Next:
    """The next step of each sender.

    A reservation is one step: until its transaction ends, nobody else sees its row or gets its key.
    """
    for number, sender in enumerate(world.senders):
        if sender.phase == "reserving":
            yield from _reserve(world, number, sender, rules)
        elif sender.phase == "publishing":
            yield from _publish(world, number, sender)


def _reserve(world: World, number: int, sender: Sender, rules: Rules) -> Next:
    call, faults = sender.call, world.faults
    before = world if rules.publishes_after_commit else queued(world, call)
    decided = decision(world.row, call, NOBODY, answered=call in world.answered)
    if faults.rollbacks:
        fewer = before._replace(faults=faults._replace(rollbacks=faults.rollbacks - 1))
        yield f"the sender of {call} rolls back", _phase(fewer, number, "undone")
    if decided not in {"insert", "reopen"}:
        yield f"the sender of {call} hears of a duplicate", _phase(before, number, "sent")
        return
    row, answered = _reserved(world, call)
    after = before._replace(row=row, answered=answered)
    phase: Sending = "publishing" if rules.publishes_after_commit else "sent"
    yield f"the sender of {call} commits", _phase(after, number, phase)


def _reserved(world: World, call: str) -> tuple[Row, frozenset[str]]:
    old = world.row
    if old is None:
        return Row(PENDING, 0, 1, call, None, None, call), world.answered
    generation = old.generation + (old.state == SUCCEEDED)
    replaced = {old.task_id, old.runner or old.task_id}
    return Row(PENDING, old.token + 1, generation, call, None, None, call), world.answered | replaced


def _publish(world: World, number: int, sender: Sender) -> Next:
    sent = _phase(world, number, "sent")
    yield f"the sender of {sender.call} publishes", queued(sent, sender.call)
    if world.faults.dead_senders:
        faults = world.faults._replace(dead_senders=world.faults.dead_senders - 1)
        yield f"the sender of {sender.call} dies", sent._replace(faults=faults)


def cancels(world: World, rules: Rules) -> Next:
    """Somebody cancels the key."""
    row, faults = world.row, world.faults
    if row is None or not faults.cancels or row.state == CANCELLED:
        return
    if row.state in {PENDING, RUNNING, RETRY} or not rules.cancel_tests_state:
        ended = row._replace(
            state=CANCELLED, token=row.token + 1, owner=None, message=None, open=False, past=False
        )
        fewer = faults._replace(cancels=faults.cancels - 1)
        workers = tuple(sorted(worker._replace(living=False) for worker in world.workers))
        yield "the key is cancelled", world._replace(row=ended, faults=fewer, workers=workers)


def blind_claim(world: World, worker: Worker, rules: Rules) -> Row | None:
    """The row after the first statement for a reserved message, which reads nothing before; or None."""
    row = world.row
    if row is None or not world.senders or not (row.state == PENDING or (row.state == RETRY and row.open)):
        return None
    if rules.reserved_names_its_call and row.task_id != worker.call:
        return None
    return row._replace(state=RUNNING, token=row.token + 1, runner=None, owner=worker.owner, open=False)


def _phase(world: World, number: int, phase: Sending) -> World:
    senders = [*world.senders]
    senders[number] = senders[number]._replace(phase=phase)
    return world._replace(senders=tuple(senders))
