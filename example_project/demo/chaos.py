"""Strikes in the middle of a task: kills children of the pool or a whole worker, or cuts connections."""

from __future__ import annotations

import random
import signal
from typing import TYPE_CHECKING

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from example_project.servers.process import send_signal

from .programs import Program, wait_until
from .stage import CHILDREN, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.db.models import QuerySet

#: How long to wait for work to interrupt; at the end of the traffic there may be none.
PATIENCE = 5.0
CHANCES = 20


class Chaos:
    """Interrupts the work of the keys that ``prey`` gives; ``doing`` says what work that is.

    A key that lost more than ``crashes`` owners before is spared: one that ends its worker three times
    counts as poison, which is another story.
    """

    def __init__(
        self,
        stage: Stage,
        prey: Callable[[], QuerySet[IdempotencyKey]],
        doing: str,
        rng: random.Random,
        *,
        crashes: int = 0,
    ) -> None:
        self.children_killed = 0
        self.workers_killed = 0
        self._stage = stage
        self._workers = stage.workers
        self._prey, self._doing, self._crashes = prey, doing, crashes
        self._rng = rng
        self._victims: set[int] = set()

    def kill_child(self) -> str:
        """SIGKILL a child at work. Returns what was done, or nothing when no work came in time."""
        for worker, busy in self._chances(all_busy=False):
            victim = self._rng.choice(busy)
            if self._caught([victim]):
                self._victims.add(victim)
                send_signal(victim, signal.SIGKILL)
                self.children_killed += 1
                return f"killed child {victim} of {worker.name}, which was {self._doing}"
        return ""

    def kill_worker(self) -> str:
        """SIGKILL a worker with its children, all of them at work, and start another in its place."""
        for worker, busy in self._chances(all_busy=True):
            if self._caught(busy):
                self._victims.update(busy)
                worker.kill()
                self.workers_killed += 1
                self._workers.remove(worker)
                successor = self._stage.start_worker()
                self._workers.append(successor)
                return f"killed {worker.name}, {len(busy)} children {self._doing}; started {successor.name}"
        return ""

    def cut(self, connections: Callable[[], str]) -> str:
        """Cut connections while something is at work. Returns what was done."""
        return connections() if self._wait_for(all_busy=False) else ""

    def _caught(self, victims: list[int]) -> bool:
        """Stop the processes, and let them go on when one has finished its work meanwhile."""
        for pid in victims:
            send_signal(pid, signal.SIGSTOP)
        if self._at_work().issuperset(victims):
            return True
        _let_go(victims)
        return False

    def _chances(self, *, all_busy: bool) -> Iterator[tuple[Program, list[int]]]:
        for _ in range(CHANCES):
            found = self._wait_for(all_busy=all_busy)
            if found is None:
                return
            yield found

    def _wait_for(self, *, all_busy: bool) -> tuple[Program, list[int]] | None:
        found: list[tuple[Program, list[int]]] = []

        def look() -> bool:
            found[:] = self._busy_workers(all_busy=all_busy)
            return bool(found)

        return self._rng.choice(found) if wait_until(look, seconds=PATIENCE, every=0.02) else None

    def _busy_workers(self, *, all_busy: bool) -> list[tuple[Program, list[int]]]:
        running = self._at_work()
        if not running:  # else the children of each worker are looked for among all processes
            return []
        pairs = [(worker, [pid for pid in worker.children() if pid in running]) for worker in self._workers]
        return [(worker, busy) for worker, busy in pairs if len(busy) >= (CHILDREN if all_busy else 1)]

    def _at_work(self) -> set[int]:
        """Return the processes that are at it now."""
        running = self._prey().filter(state=State.RUNNING, crashes__lte=self._crashes)
        owners = running.values_list("owner", flat=True)
        # The owner of a key is <worker instance>:<process>:<claim>.
        return {int(owner.split(":")[1]) for owner in owners if owner} - self._victims


def _let_go(stopped: list[int]) -> None:
    for pid in stopped:
        send_signal(pid, signal.SIGCONT)
