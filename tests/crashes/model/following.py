"""A key with follow-ups as a world of the search: senders in transactions, and runs that read.

Messages are not in it: whatever waits can be claimed. What becomes of messages is in the other worlds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

PENDING, RUNNING, RETRY, ENDED, CANCELLED = "PENDING", "RUNNING", "RETRY", "ENDED", "CANCELLED"

#: What a sender's open transaction has done to the key.
Deed = Literal["", "reserves", "follows", "holds the call", "holds the follow-up", "is refused"]

Next = Iterator[tuple[str, "World"]]

TWO_BODIES, TWO_WAIT = "two bodies ran at once", "a call and a follow-up wait"


class Rules(NamedTuple):
    """The parts of the protocol; each can be taken away."""

    follows_what_runs: bool = True
    holds_the_call: bool = True
    holds_the_follow_up: bool = True
    #: Who reserves a key and who follows it exclude each other until their transactions end.
    excludes: bool = True
    run_promotes: bool = True
    sender_promotes: bool = True
    sweeper_promotes: bool = True
    #: After a cancel the key goes on once the body has ended.
    waits_after_cancel: bool = True


class Faults(NamedTuple):
    """What may still happen in a world."""

    rollbacks: int = 0
    #: Senders that die between their commit and what follows it.
    dead_senders: int = 0
    #: Bodies whose process dies.
    crashes: int = 0
    #: Processes that die between the completion and what follows it.
    dead_ends: int = 0
    cancels: int = 0


class Sender(NamedTuple):
    """One caller: a transaction that changes something and asks for a run."""

    phase: Literal["before", "open", "committed", "done"] = "before"
    deed: Deed = ""


class Body(NamedTuple):
    """A run: of which token, and how many changes it has read, -1 before it reads."""

    token: int
    read: int = -1


class World(NamedTuple):
    """The key, its follow-up, and who is about to do something."""

    senders: tuple[Sender, ...]
    faults: Faults
    state: str | None = None
    token: int = 0
    #: The follow-up: 0 for none, 1 for one that is not committed, 2 for one that waits.
    follow_up: int = 0
    bodies: tuple[Body, ...] = ()
    #: Tokens of runs that have completed and have not looked for a follow-up.
    ends: tuple[int, ...] = ()
    changes: int = 0
    derived: int = 0
    was_cancelled: bool = False

    @property
    def broken(self) -> str:
        """What must never happen and has."""
        if len(self.bodies) > 1:
            return TWO_BODIES
        return TWO_WAIT if self.state == PENDING and self.follow_up == 2 else ""

    @property
    def is_settled(self) -> bool:
        """Whether all is done, and nothing was missed."""
        is_quiet = not (self.follow_up or self.bodies or self.ends) and self.state in {None, ENDED, CANCELLED}
        is_done = all(sender.phase == "done" for sender in self.senders)
        return is_quiet and is_done and (self.was_cancelled or self.derived == self.changes)


def world(senders: int, **faults: int) -> World:
    """So many senders, before any of them begins."""
    return World((Sender(),) * senders, Faults(**faults))


class Protocol:
    """The steps of everybody under some rules."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def steps(self, world: World) -> Next:
        """Whatever can happen next."""
        for number, sender in enumerate(world.senders):
            yield from self._sends(world, number, sender)
        yield from self._runs(world)
        yield from self._ends(world)
        if self.rules.sweeper_promotes and self._may_promote(world):
            yield "the sweeper gives the key on", self._promoted(world)
        if world.faults.cancels and world.state in {PENDING, RUNNING, RETRY} and not _is_held(world):
            faults = world.faults._replace(cancels=world.faults.cancels - 1)
            yield (
                "the call is cancelled",
                world._replace(state=CANCELLED, token=world.token + 1, faults=faults, was_cancelled=True),
            )

    # -- senders --

    def _sends(self, world: World, number: int, sender: Sender) -> Next:
        match sender.phase:
            case "before":
                deed = self._deed(world)
                if deed is not None:
                    follow_up = 1 if deed == "follows" else world.follow_up
                    opened = _with(world._replace(follow_up=follow_up), number, Sender("open", deed))
                    yield f"sender {number} {deed}", opened
            case "open":
                yield from self._closes(world, number, sender)
            case "committed":
                may = self.rules.sender_promotes and self._may_promote(world)
                after = self._promoted(world) if may else world
                yield f"sender {number} looks after it", _with(after, number, Sender("done"))
                if world.faults.dead_senders:
                    faults = world.faults._replace(dead_senders=world.faults.dead_senders - 1)
                    yield (
                        f"sender {number} dies",
                        _with(world._replace(faults=faults), number, Sender("done")),
                    )

    def _deed(self, world: World) -> Deed | None:
        """What a sender does to the key as it sees it; None while it has to wait for another one."""
        if _does(world, "reserves") or (
            world.follow_up == 1 and (self.rules.excludes or self._runs_now(world))
        ):
            return None
        if world.state in {PENDING, RETRY}:
            return "holds the call" if self.rules.holds_the_call else "is refused"
        if world.follow_up == 2:
            return "holds the follow-up" if self.rules.holds_the_follow_up else "is refused"
        if self._runs_now(world):
            return "follows" if self.rules.follows_what_runs else "is refused"
        return "reserves"

    def _runs_now(self, world: World) -> bool:
        """Whether a body runs, or may run although its call was cancelled."""
        cut_short = world.state == CANCELLED and bool(world.bodies) and self.rules.waits_after_cancel
        return world.state == RUNNING or cut_short

    def _closes(self, world: World, number: int, sender: Sender) -> Next:
        follows, reserves = sender.deed == "follows", sender.deed == "reserves"
        if world.faults.rollbacks:
            faults = world.faults._replace(rollbacks=world.faults.rollbacks - 1)
            undone = world._replace(faults=faults, follow_up=0 if follows else world.follow_up)
            yield f"sender {number} rolls back", _with(undone, number, Sender("done"))
        done = world._replace(changes=world.changes + 1, follow_up=2 if follows else world.follow_up)
        if reserves:
            done = done._replace(state=PENDING, token=world.token + 1)
        yield f"sender {number} commits", _with(done, number, Sender("committed"))

    # -- runs --

    def _runs(self, world: World) -> Next:
        if world.state in {PENDING, RETRY} and not _is_held(world):
            token = world.token + 1
            claimed = world._replace(state=RUNNING, token=token, bodies=(*world.bodies, Body(token)))
            yield f"run {token} begins", claimed
        for body in world.bodies:
            others = tuple(each for each in world.bodies if each != body)
            if body.read < 0:
                read = (*others, body._replace(read=world.changes))
                yield f"run {body.token} reads", world._replace(bodies=read)
            else:
                yield f"run {body.token} ends", self._completed(world._replace(bodies=others), body)
            if world.faults.crashes:
                yield f"run {body.token} dies", _crashed(world._replace(bodies=others), body)

    def _completed(self, world: World, body: Body) -> World:
        after = world._replace(ends=(*world.ends, body.token))
        if world.state != RUNNING or world.token != body.token:
            return after
        return after._replace(state=ENDED, derived=body.read)

    def _ends(self, world: World) -> Next:
        for token in world.ends:
            left = world._replace(ends=tuple(each for each in world.ends if each != token))
            may = self.rules.run_promotes and self._may_promote(left)
            yield f"run {token} looks for a follow-up", self._promoted(left) if may else left
            if world.faults.dead_ends:
                faults = world.faults._replace(dead_ends=world.faults.dead_ends - 1)
                yield f"run {token} dies at its end", left._replace(faults=faults)

    # -- the key goes on --

    def _may_promote(self, world: World) -> bool:
        if world.follow_up != 2 or _does(world, "holds the follow-up") or _does(world, "reserves"):
            return False
        if world.state == CANCELLED and world.bodies:
            return not self.rules.waits_after_cancel
        return world.state in {ENDED, CANCELLED}

    def _promoted(self, world: World) -> World:
        return world._replace(state=PENDING, token=world.token + 1, follow_up=0)


def _crashed(world: World, body: Body) -> World:
    faults = world.faults._replace(crashes=world.faults.crashes - 1)
    is_own = world.state == RUNNING and world.token == body.token
    return world._replace(faults=faults, state=RETRY if is_own else world.state)


def _does(world: World, deed: Deed) -> bool:
    return any(sender == Sender("open", deed) for sender in world.senders)


def _is_held(world: World) -> bool:
    return _does(world, "holds the call")


def _with(world: World, number: int, sender: Sender) -> World:
    senders = [*world.senders]
    senders[number] = sender
    return world._replace(senders=tuple(senders))
