"""What can happen next: every step of workers, broker, sweeper and time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.crashes.model.promises import judge_completion, judge_grant, judge_run
from tests.crashes.model.rules import Rules
from tests.crashes.model.senders import blind_claim, cancels, sends
from tests.crashes.model.world import (
    CANCELLED,
    FAILED,
    PENDING,
    RETRY,
    RUNNING,
    SUCCEEDED,
    Row,
    Worker,
    World,
    decision,
    queued,
)

Next = Iterator[tuple[str, World]]

IDLE = Worker()


@dataclass(frozen=True)
class Protocol:
    """The steps that are possible in a world under the rules."""

    rules: Rules

    def steps(self, world: World) -> Next:
        """Every step from here, with what it is called."""
        yield from _time(world)
        yield from self._sweeper(world)
        yield from _broker(world)
        yield from sends(world, self.rules)
        yield from cancels(world, self.rules)
        for number, worker in enumerate(world.workers):
            if worker.phase != "idle":
                yield from self._worker(world, number, worker)

    def _sweeper(self, world: World) -> Next:
        row = world.row
        if not self.rules.sweeper or row is None or row.message is None:
            return
        if row.state == RUNNING and row.open:
            freed = row._replace(state=RETRY, token=row.token + 1, owner=None)
            yield "the sweeper frees the key", world._replace(row=freed)
        due = row.state == PENDING or (row.state == RETRY and row.open)
        if due and row.message not in world.queue:  # more of the same would only lengthen the search
            yield "the sweeper sends the message", queued(world, row.message)

    def _worker(self, world: World, number: int, worker: Worker) -> Next:
        call = worker.call
        if world.faults.crashes:
            faults = world.faults._replace(crashes=world.faults.crashes - 1)
            yield f"{call} crashes", queued(_put(world._replace(faults=faults), number, IDLE), call)
        match worker.phase:
            case "reading":
                yield self._read(world, number, worker)
                row = blind_claim(world, worker, self.rules)
                if row is not None:
                    yield f"{call} claims what it reserved", self._granted(world, number, worker, row)
            case "claiming":
                yield from self._claim(world, number, worker)
            case "running":
                yield from self._run(world, number, worker)
            case "publishing":
                yield from self._publish(world, number, worker)

    # -- claiming: what was read and what is written are two moments --

    def _read(self, world: World, number: int, worker: Worker) -> tuple[str, World]:
        row, call = world.row, worker.call
        decided = decision(row, call, worker.owner, answered=call in world.answered)
        if decided == "wait" and self.rules.reschedules:
            return f"{call} waits", queued(_put(world, number, IDLE), call)
        if decided in {"wait", "end"}:
            return f"{call} ends", _put(world, number, IDLE)
        if decided == "own" and row is not None:
            return f"{call} recognises its claim", _running(world, number, worker, row)
        seen = (row.token, row.state) if row else (0, 0)
        claiming = worker._replace(phase="claiming", decision=decided, seen=seen)
        return f"{call} may {decided}", _put(world, number, claiming)

    def _claim(self, world: World, number: int, worker: Worker) -> Next:
        again = Worker("reading", worker.call, worker.owner)
        row, answered = self._claimed(world, worker)
        if row is None:
            yield f"{worker.call} is too late", _put(world, number, again)
            return
        running = self._granted(world._replace(answered=answered), number, worker, row)
        yield f"{worker.call} gets token {row.token}", running
        if world.faults.cuts:
            after = running._replace(faults=world.faults._replace(cuts=world.faults.cuts - 1))
            after = after._replace(workers=world.workers)
            yield f"{worker.call} gets token {row.token} unheard", _put(after, number, again)

    @staticmethod
    def _granted(world: World, number: int, worker: Worker, row: Row) -> World:
        broken = judge_grant(world, row) or judge_run(world, worker)
        after = world._replace(row=row, top=max(world.top, row.token), broken=broken)
        return _running(after, number, worker, row)

    def _claimed(self, world: World, worker: Worker) -> tuple[Row | None, frozenset[str]]:
        """The row after the claim's statement, or None when it changed no row, and who is remembered."""
        row = world.row
        if row is None or worker.decision == "insert":
            message = worker.call if self.rules.stored else None
            new = Row(RUNNING, 1, 1, worker.call, None, worker.owner, message)
            return None if row else new, world.answered
        if worker.decision == "reopen":
            return self._claimed_anew(world, row, worker)
        if (row.token, row.state) != worker.seen or not (row.state == PENDING or row.open):
            return None, world.answered
        return self._opened(row, worker), world.answered

    def _opened(self, row: Row, worker: Worker) -> Row:
        counts = self.rules.takeover_counts or row.state != RUNNING
        return row._replace(
            state=RUNNING,
            token=row.token + counts,
            runner=worker.call if worker.call != row.task_id else None,
            owner=worker.owner,
            message=worker.call if self.rules.stored else row.message,
            open=False,
        )

    def _claimed_anew(self, world: World, row: Row, worker: Worker) -> tuple[Row | None, frozenset[str]]:
        as_seen = (row.token, row.state) == worker.seen and (row.state in {FAILED, CANCELLED} or row.past)
        if not (as_seen if self.rules.reclaim_tests_state else row.past):
            return None, world.answered
        remembered = {row.task_id} if self.rules.remembers_accepted else set()
        if row.runner and self.rules.remembers_runner:
            remembered.add(row.runner)
        generation = row.generation + (row.state == SUCCEEDED)
        message = worker.call if self.rules.stored else None
        anew = Row(RUNNING, row.token + 1, generation, worker.call, None, worker.owner, message)
        return anew._replace(past=not self.rules.reclaim_tests_state), world.answered | remembered

    # -- running and settling --

    def _run(self, world: World, number: int, worker: Worker) -> Next:
        row, faults, call = world.row, world.faults, worker.call
        if row is not None:
            yield from self._beat(world, number, worker, row)
        if row is None or not self._owns(row, worker):
            yield f"{call} is refused", _put(world, number, IDLE)
            return
        yield f"{call} completes token {worker.token}", _completed(world, number, worker, row)
        if faults.failures:
            failed = world._replace(row=row._replace(state=FAILED, owner=None, open=False))
            fewer = failed._replace(faults=faults._replace(failures=faults.failures - 1))
            yield f"{call} fails", _put(fewer, number, IDLE)
        if faults.retries:
            fewer = world._replace(faults=faults._replace(retries=faults.retries - 1))
            yield from self._retry(fewer, number, worker, row)

    def _owns(self, row: Row, worker: Worker) -> bool:
        named = (row.token, row.owner) == (worker.token, worker.owner)
        return row.state == RUNNING and (named or not self.rules.fenced)

    def _beat(self, world: World, number: int, worker: Worker, row: Row) -> Next:
        """A lease that lasts is only made longer; one that is over lives again, if nobody has taken it."""
        mine = (row.token, row.owner) == (worker.token, worker.owner)
        if row.state == RUNNING and row.open and (mine or not self.rules.heartbeat_names_its_claim):
            broken = "a lease lives whose owner was told that it is over" if worker.told else ""
            after = _put(world, number, worker._replace(living=mine))
            yield "a late heartbeat", after._replace(row=row._replace(open=False), broken=broken)
        if not mine and not worker.told:
            yield f"{worker.call} is told", _put(world, number, worker._replace(told=True))

    def _retry(self, world: World, number: int, worker: Worker, row: Row) -> Next:
        written = world._replace(row=row._replace(state=RETRY, owner=None, open=False))
        if self.rules.retry_writes_first:
            publishing = Worker("publishing", worker.call, worker.owner)
            yield f"{worker.call} writes its retry", _put(written, number, publishing)
            return
        published = queued(_put(written, number, IDLE), worker.call)
        yield f"{worker.call} publishes its retry and writes it", published
        if world.faults.outages:  # as Celery does: the message is rejected and not put back
            faults = world.faults._replace(outages=world.faults.outages - 1)
            dropped = _put(world._replace(faults=faults), number, IDLE)
            yield f"{worker.call} cannot publish its retry", dropped

    def _publish(self, world: World, number: int, worker: Worker) -> Next:
        done = _put(world, number, IDLE)
        yield f"{worker.call} publishes its retry", queued(done, worker.call)
        if world.faults.outages:
            done = done._replace(faults=world.faults._replace(outages=world.faults.outages - 1))
            kept = done if self.rules.stored else queued(done, worker.call)
            yield f"{worker.call} cannot publish its retry", kept


# -- what nobody does --


def _time(world: World) -> Next:
    row = world.row
    if row is None or row.open:
        return
    if row.state == RUNNING:
        yield from _lease_ends(world, row)
    elif row.state == RETRY:
        yield "the retry falls due", world._replace(row=row._replace(open=True))
    elif row.state == SUCCEEDED and not row.past:
        yield "the retention ends", world._replace(row=row._replace(past=True))


def _lease_ends(world: World, row: Row) -> Next:
    """The owner has died, or is paused for longer than its lease."""
    alive = any(worker.phase == "running" and worker.owner == row.owner for worker in world.workers)
    if alive and not world.faults.pauses:
        return
    workers = [w._replace(living=False) if w.owner == row.owner and w.living else w for w in world.workers]
    yield (
        "the lease ends",
        world._replace(
            row=row._replace(open=True),
            faults=world.faults._replace(pauses=world.faults.pauses - alive),
            workers=_sorted(workers),
        ),
    )


def _broker(world: World) -> Next:
    faults = world.faults
    for call in sorted(set(world.queue)):
        rest = list(world.queue)
        rest.remove(call)
        taken = world._replace(queue=tuple(rest))
        if IDLE in world.workers:
            reading = Worker("reading", call, _unused_owner(world))
            yield f"{call} is delivered", _put(taken, world.workers.index(IDLE), reading)
        if faults.losses and world.row is not None:  # before that it is the broker's alone to keep
            yield f"{call} is lost", taken._replace(faults=faults._replace(losses=faults.losses - 1))
    if faults.copies:  # of a message that is not acknowledged, or whose acknowledgement was lost
        fewer = world._replace(faults=faults._replace(copies=faults.copies - 1))
        known = {worker.call for worker in world.workers} | world.answered | world.served
        for call in sorted(known - {""}):
            yield f"{call} is delivered again", queued(fewer, call)


# -- small changes of a world --


def _completed(world: World, number: int, worker: Worker, row: Row) -> World:
    served = {worker.call, row.task_id}
    after = world._replace(
        row=row._replace(state=SUCCEEDED, message=None, open=False),
        done=world.done | {worker.generation},
        served=world.served | served,
        broken=judge_completion(world, worker, served),
    )
    return _put(after, number, IDLE)


def _put(world: World, number: int, worker: Worker) -> World:
    workers = [*world.workers]
    workers[number] = worker
    return world._replace(workers=_sorted(workers))


def _sorted(workers: list[Worker]) -> tuple[Worker, ...]:
    """Workers are all alike: which is which makes no difference."""
    return tuple(sorted(workers))


def _running(world: World, number: int, worker: Worker, row: Row) -> World:
    running = Worker("running", worker.call, worker.owner, token=row.token, generation=row.generation)
    return _put(world, number, running._replace(living=not row.open))


def _unused_owner(world: World) -> int:
    """The name of one claim: new, but out of few names, so that the search ends."""
    used = {worker.owner for worker in world.workers if worker.call}
    if world.row is not None:
        used.add(world.row.owner or 0)
    return next(number for number in range(1, len(used) + 2) if number not in used)
