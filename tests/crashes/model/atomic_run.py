"""What can happen next to atomic runs: every step of workers, parents, server, broker, sweeper and time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.crashes.model.atomic_ends import bury, commit, dies, record, takes_back
from tests.crashes.model.atomic_world import (
    MAX_CRASHES,
    AtomicRules,
    Worker,
    World,
    decided_by,
    fewer,
    is_as_counted,
    put,
    queued,
    token_and_state,
)
from tests.crashes.model.world import CANCELLED, PENDING, RETRY, SUCCEEDED, Row

Next = Iterator[tuple[str, World]]

IDLE = Worker()


@dataclass(frozen=True)
class AtomicRuns:
    """The steps that are possible in a world under the rules."""

    rules: AtomicRules

    def steps(self, world: World) -> Next:
        """Every step from here, with what it is called."""
        yield from _time(world)
        yield from _broker(world)
        yield from self._others(world)
        for number, worker in enumerate(world.workers):
            if worker.phase not in {"idle", "bereaved"}:
                yield from self._worker(world, number, worker)
            if worker.phase == "bereaved":
                yield self._parent(world, number, worker)

    def _others(self, world: World) -> Next:
        """The sweeper and a cancel pass over a row that is locked."""
        row = world.row
        if row is None or world.lock or row.state not in {PENDING, RETRY}:
            return
        waits = all(message.call != row.message for message in world.queue)
        due = row.state == PENDING or row.open
        if self.rules.sweeper and row.message and due and waits:
            yield "the sweeper sends the message", queued(world, row.message)
        if world.faults.cancels:
            ended = row._replace(state=CANCELLED, token=row.token + 1, message=None, open=False)
            yield "the key is cancelled", fewer(world, "cancels")._replace(row=ended)

    def _worker(self, world: World, number: int, worker: Worker) -> Next:
        if world.faults.kills:
            yield f"the worker of {worker.call} is killed", dies(fewer(world, "kills"), number, worker)
        match worker.phase:
            case "reading":
                yield self._read(world, number, worker)
            case "counting":
                yield self._count(world, number, worker)
            case "claiming":
                yield self._claim(world, number, worker)
            case "running":
                yield from self._run(world, number, worker)
            case "recording":
                yield record(world, number, worker, self.rules)
            case _:
                yield from self._publish(world, number, worker)

    # -- before the body: what was read and what is written are two moments --

    def _read(self, world: World, number: int, worker: Worker) -> tuple[str, World]:
        decided = decided_by(world, worker)
        if decided == "wait":
            return self.later(world, number, worker)
        if decided in {"end", "own"}:
            return f"{worker.call} ends", put(world, number, IDLE)
        counts = self.rules.counts_starts and worker.again and not worker.counted
        seen = worker._replace(seen=token_and_state(world.row), decided=decided)
        after = seen._replace(phase="counting" if counts else "claiming")
        return f"{worker.call} may {decided}", put(world, number, after)

    def later(self, world: World, number: int, worker: Worker) -> tuple[str, World]:
        """Another transaction has the key: the copy is sent again."""
        after = put(world._replace(left=world.left + bool(worker.counted)), number, IDLE)
        return f"{worker.call} comes back", queued(after, worker.call) if self.rules.comes_back else after

    def _count(self, world: World, number: int, worker: Worker) -> tuple[str, World]:
        if world.lock or token_and_state(world.row) != worker.seen:
            return self.later(world, number, worker)
        crashes = 0 if worker.decided == "reopen" else world.crashes
        row = self._taken(world.row, worker)._replace(state=RETRY, message=worker.call, open=crashes == 0)
        counted = row._replace(token=row.token + 1)
        after = self._remembering(world, worker)._replace(row=counted, crashes=crashes + 1)
        reading = worker._replace(phase="reading", counted=counted.token)
        return f"{worker.call} counts its start", put(after, number, reading)

    def _claim(self, world: World, number: int, worker: Worker) -> tuple[str, World]:
        row = world.row
        if world.lock:
            return self.later(world, number, worker)
        as_seen = token_and_state(row) == worker.seen
        if not as_seen and (self.rules.claims_compare or row is None):
            return f"{worker.call} is too late", put(world, number, worker._replace(phase="reading"))
        crashes = world.crashes if worker.decided == "open" else 0
        crashes -= takes_back(world, worker, self.rules)
        overtaken = bool(worker.counted) and not is_as_counted(row, worker)
        world = world._replace(left=world.left + overtaken)
        world = world._replace(broken=_judge_start(world, number, crashes))
        poison = self.rules.bounds_poison and crashes >= MAX_CRASHES
        if poison:
            return bury(world, number, worker)
        judged = world.broken or ("" if worker.decided == "reopen" else _judge_poison(world))
        after = world._replace(lock="run", broken=judged)
        if not self.rules.one_transaction:
            after = after._replace(row=self._completed(world, worker), crashes=crashes)
        return f"{worker.call} begins", put(after, number, worker._replace(phase="running"))

    @staticmethod
    def _taken(row: Row | None, worker: Worker) -> Row:
        if row is None:
            return Row(0, 1, 1, worker.call, None, None, None)
        if worker.decided == "reopen":
            generation = row.generation + (row.state == SUCCEEDED)
            return Row(0, row.token + 1, generation, worker.call, None, None, None)
        return row._replace(token=row.token + 1, open=False)

    def _completed(self, world: World, worker: Worker) -> Row:
        return self._taken(world.row, worker)._replace(state=SUCCEEDED, message=None)

    def _remembering(self, world: World, worker: Worker) -> World:
        if worker.decided != "reopen" or world.row is None or not self.rules.remembers:
            return world
        return world._replace(answered=world.answered | {world.row.task_id})

    # -- the body and its end --

    def _run(self, world: World, number: int, worker: Worker) -> Next:
        call = worker.call
        row = self._completed(world, worker) if self.rules.one_transaction else world.row
        crashes = world.crashes if worker.decided == "open" else 0
        crashes -= takes_back(world, worker, self.rules)
        assert row is not None
        done = commit(self._remembering(world, worker), worker, row)._replace(crashes=crashes)
        yield f"{call} commits", put(done, number, IDLE)
        undone = world._replace(lock="")
        recording = worker._replace(phase="recording")
        if world.faults.cuts:
            unheard = recording._replace(ending="retry")
            yield f"{call} commits unheard", put(fewer(done, "cuts"), number, unheard)
        if world.faults.retries:
            again = put(fewer(undone, "retries"), number, recording._replace(ending="retry"))
            yield f"{call} asks for a retry", again
        if world.faults.failures:
            failed = put(fewer(undone, "failures"), number, recording._replace(ending="fail"))
            yield f"{call} fails", failed
        if world.faults.deaths:
            yield f"the child of {call} dies", self._bereaved(fewer(world, "deaths"), number, worker)

    def _bereaved(self, world: World, number: int, worker: Worker) -> World:
        """The parent lives and may record it; the server may take the connection for a living one."""
        if worker.again and self.rules.hook_knows_counted:
            return dies(world, number, worker)
        alone = world._replace(died=world.died + 1, lock="ghost" if world.faults.ghosts else "")
        left = fewer(alone, "ghosts") if world.faults.ghosts else alone
        return put(left, number, worker._replace(phase="bereaved"))

    def _parent(self, world: World, number: int, worker: Worker) -> tuple[str, World]:
        """Record the death, whatever the row says by now, and give the message back."""
        back = queued(put(world, number, IDLE), worker.call, again=True)
        if not self.rules.hook:
            return "the parent records nothing", back
        held = world.lock or decided_by(world, worker._replace(counted=0)) not in {"insert", "open", "reopen"}
        if held:
            return "the parent finds the key held", back._replace(unknown=world.unknown + 1)
        decided = decided_by(world, worker._replace(counted=0))
        taker = worker._replace(decided=decided)
        crashes = 0 if decided == "reopen" else world.crashes
        row = self._taken(world.row, taker)
        row = row._replace(state=RETRY, token=row.token + 1, message=worker.call, open=crashes == 0)
        after = self._remembering(back, taker)._replace(row=row, crashes=crashes + 1)
        return "the parent records the death", after

    def _publish(self, world: World, number: int, worker: Worker) -> Next:
        done = put(world, number, IDLE)
        yield f"{worker.call} publishes its retry", queued(done, worker.call)
        if world.faults.outages:
            yield f"{worker.call} cannot publish its retry", fewer(done, "outages")


def _judge_start(world: World, number: int, crashes: int) -> str:
    """No crash is counted that was none; starts of other copies count until they have begun."""
    others = sum(1 for other, worker in enumerate(world.workers) if worker.counted and other != number)
    more = crashes > world.died + world.left + others
    return "more crashes were counted than workers died" if more else ""


def _judge_poison(world: World) -> str:
    """Whatever was counted, a body that kills its workers is not started for ever; new work begins anew."""
    if world.row is not None and world.row.generation > 1:
        return ""
    known = world.died - world.unknown - sum(worker.phase == "bereaved" for worker in world.workers)
    return f"the body was started after {known} deaths" if known >= MAX_CRASHES else ""


def _time(world: World) -> Next:
    row = world.row
    if world.lock == "ghost":
        yield "the server notices the death", world._replace(lock="")
    if row is None:
        return
    if row.state == RETRY and not row.open:
        yield "the retry falls due", world._replace(row=row._replace(open=True))
    elif row.state == SUCCEEDED and not row.past and not world.lock:
        yield "the retention ends", world._replace(row=row._replace(past=True))


def _broker(world: World) -> Next:
    for message in sorted(set(world.queue)):
        rest = list(world.queue)
        rest.remove(message)
        taken = world._replace(queue=tuple(rest))
        if IDLE in world.workers:
            reading = Worker("reading", message.call, message.again)
            yield f"{message.call} is delivered", put(taken, world.workers.index(IDLE), reading)
    if world.faults.copies:
        known = {worker.call for worker in world.workers} | world.answered | world.effects
        for call in sorted(known - {""}):
            yield f"{call} is delivered again", queued(fewer(world, "copies"), call, again=True)
