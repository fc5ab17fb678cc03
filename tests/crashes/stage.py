"""One key on its way: called, worked on by a process that may die, recovered, and looked at in the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from django.db import connections

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import FINISHED, State
from django_idempotent_tasks.sweeper.sweep import sweep_once
from tests.crashes.shop import Worker, app, completing
from tests.crashes.world import World
from tests.sample.models import Effect

#: The state of a key, None without one, and how often its effect was written.
Ends = Mapping[State | None, int]

#: Seconds by which the clock goes on at once: longer than a lease, a retry's wait and REPUBLISH_AFTER.
STEP = 4000
#: So often, at most, must that be enough.
STEPS = 6

LOOK = f"SELECT state, token, attempts, task_id FROM {IdempotencyKey._meta.db_table} WHERE key_text = %s"  # noqa: S608


@dataclass(frozen=True)
class Sight:
    """The key's row and its effects, as they are at one moment."""

    state: State | None
    token: int
    attempts: int
    task_id: str
    effects: int

    def __str__(self) -> str:
        return f"{self.state.name if self.state else 'without a row'} with {self.effects} effects"

    @property
    def is_live(self) -> bool:
        """Whether somebody has to do something about the key."""
        return self.state is not None and self.state not in FINISHED


@dataclass
class Stage:
    """A new key in the database ``alias``, in a world of its own."""

    alias: str
    task: Any = completing
    key: str = field(default_factory=lambda: uuid4().hex)
    world: World = field(default_factory=World)
    task_ids: set[str] = field(default_factory=set)
    #: What was seen of the key's token, in order.
    tokens: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        app.world = self.world
        self.worker = Worker(self.world)

    # -- what happens --

    def call(self, task_id: str = "") -> str:
        """Make a call of the key, which is then on the queue; its id."""
        task_id = task_id or uuid4().hex
        self.task_ids.add(task_id)
        self.task.apply_async(kwargs={"key": self.key}, task_id=task_id)
        return task_id

    def work(self) -> None:
        """Let this process work until the queue is empty."""
        self.worker.work()

    def sweep(self) -> int:
        """Let the sweeper do one bite."""
        return sweep_once(app, get_store())

    def recover(self) -> Sight:
        """Go on with other processes until all is quiet: leases expire, the sweeper sweeps, copies arrive."""
        self.world.lose_worker()
        for step in range(1, STEPS + 1):
            with shifted(step * STEP):
                self.sweep()
                self.look()
                self.world.let_time_pass()
                self.work()
                if not self.look().is_live and not self.world.parcels:
                    break
        return self.look()

    # -- what is seen --

    @property
    def ended(self) -> list[dict[str, Any]]:
        """How Celery took the deliveries of the key's calls so far."""
        return [end for end in self.world.ended if end["task_id"] in self.task_ids]

    def look(self) -> Sight:
        """See the key as it is now."""
        with connections[self.alias].cursor() as cursor:
            cursor.execute(LOOK, [f"key={self.key}"])
            state, token, attempts, task_id = cursor.fetchone() or (None, 0, 0, "")
        effects = Effect.objects.using(self.alias).filter(key=self.key).count()
        sight = Sight(None if state is None else State(state), token, attempts, task_id, effects)
        self.tokens.append(sight.token)
        return sight

    # -- what must be --

    def faults(self, ends: Ends) -> list[str]:
        """What is wrong now that all should be over; nothing, if the promises were kept.

        ``ends`` are the states in which the key may be, each with the effects that belong to it.
        """
        sight = self.look()
        found = {
            f"the key is {sight}": (sight.state, sight.effects) not in ends.items(),
            f"messages are left: {self.world}": bool(self.world.parcels),
            f"tokens went back: {self.tokens}": self.tokens != sorted(self.tokens),
            **self._faults_of_runs(sight),
        }
        if sight.state is not None and not any(found.values()):
            found |= self._faults_of_a_late_copy(sight)
        return [fault for fault, is_so in found.items() if is_so]

    def _faults_of_runs(self, sight: Sight) -> dict[str, bool]:
        starts = [start for start in self.world.started if start["key"] == self.key]
        tokens = [start["token"] for start in starts]
        return {
            f"runs with the tokens {tokens}": tokens != sorted(set(tokens)),
            f"{len(tokens)} runs in {sight.attempts} attempts": len(tokens) > sight.attempts,
            "an outside effect with another key": len({start["downstream"] for start in starts}) > 1,
        }

    def _faults_of_a_late_copy(self, before: Sight) -> dict[str, bool]:
        """Another copy of the accepted call, and a sweep long after: neither may change anything."""
        runs = len(self.world.started)
        self.world.ended.clear()
        with shifted(STEP * (STEPS + 1)):
            self.call(before.task_id)
            self.work()
            swept = self.sweep()
        after = self.look()
        return {
            f"after a late copy the key is {after}, not {before}": after != before,
            "a late copy ran": len(self.world.started) != runs,
            f"a late copy ended as {self.ended}": [end["is_exit"] for end in self.ended] != [False],
            "a late copy was left over": bool(self.world.parcels),
            f"{swept} rows were still to be swept": swept != 0,
        }
