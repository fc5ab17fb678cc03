"""Breadth-first search: the shortest way to something forbidden, and worlds without a way out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol as Shape
from typing import TypeVar

from tests.crashes.model.protocol import Protocol
from tests.crashes.model.rules import Rules
from tests.crashes.model.world import World


class Judged(Shape):
    """A world that knows what went wrong in it, and whether all is done."""

    @property
    def broken(self) -> str:
        """What must never happen and has; empty as long as nothing has."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to do, and nothing was left undone."""


W = TypeVar("W", bound=Judged)

STUCK = "nothing can finish the work any more"


@dataclass(frozen=True)
class Found:
    """What a search has found: nothing wrong, or what and on which way."""

    worlds: int
    wrong: str = ""
    way: tuple[str, ...] = ()


def search(start: World, rules: Rules, *, limit: int = 100_000) -> Found:
    """Look at every world that can be reached under the rules."""
    return explore(start, Protocol(rules).steps, limit=limit)


def explore(start: W, steps: Callable[[W], Iterable[tuple[str, W]]], *, limit: int) -> Found:
    """Look at every world that these steps can reach."""
    came: dict[W, tuple[W, str] | None] = {start: None}
    before: dict[W, list[W]] = {start: []}
    todo = deque([start])
    while todo:
        world = todo.popleft()
        if world.broken:
            return Found(len(came), world.broken, _way(world, came))
        for label, after in steps(world):
            if after not in came:
                assert len(came) < limit, "the search does not end"
                came[after] = (world, label)
                before[after] = []
                todo.append(after)
            before[after].append(world)
    stuck = _first_without_a_way_out(before)
    if stuck is not None:
        return Found(len(came), STUCK, _way(stuck, came))
    return Found(len(came))


def _first_without_a_way_out(before: dict[W, list[W]]) -> W | None:
    """The first world found from which no settled one can be reached."""
    todo = [world for world in before if world.is_settled]
    hopeful = set(todo)
    while todo:
        for world in before[todo.pop()]:
            if world not in hopeful:
                hopeful.add(world)
                todo.append(world)
    return next((world for world in before if world not in hopeful), None)


def _way(world: W, came: dict[W, tuple[W, str] | None]) -> tuple[str, ...]:
    labels: list[str] = []
    step = came[world]
    while step is not None:
        world, label = step
        labels.append(label)
        step = came[world]
    return tuple(reversed(labels))
