"""Many atomic calls while children and whole workers are killed, and what became of the calls."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from django.db import connections

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.sample import atomic
from tests.sample.models import Effect
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

#: Each so many kills are of a whole worker.
WHOLE = 6

#: Each so many calls ask for a retry.
RETRIED = 6


@dataclass
class Storm:
    """The calls, and the workers that are killed."""

    site: Site
    name: str
    workers: list[Worker]
    random: random.Random = field(default_factory=lambda: random.Random(7))
    #: Whether each key is reserved.
    keys: dict[str, bool] = field(default_factory=dict)
    killed: Counter[str] = field(default_factory=Counter)

    def send(self, calls: int) -> None:
        """Send so many: a quarter is reserved, a fifth is sent twice, a sixth asks for one retry."""
        for number in range(calls):
            key = f"{self.name}-{number}"
            self.keys[key] = number % 4 == 0
            for _ in range(2 if number % 5 == 1 else 1):
                self._send(key, retried=number % RETRIED == 2)

    def _send(self, key: str, *, retried: bool = False) -> None:
        task = atomic.ordering if self.keys[key] else atomic.brief
        task.delay(key, retried=retried)

    def rage(self, kills: int) -> None:
        """Kill at even steps of the progress, anywhere; whoever is dead is started again."""
        for number in range(1, kills + 1):
            goal = number * len(self.keys) // (kills + 1)
            eventually(lambda goal=goal: self._revive() and self.done() >= goal, f"{goal} done", within=60)  # type: ignore[misc]
            if number % WHOLE == 0:
                self._kill_worker()
            else:
                # Some strike bodies, while there is much to do; the later ones strike whatever a child does.
                amid = number <= kills // 2
                eventually(lambda amid=amid: self._kill_child(amid=amid), "a child is killed", within=60)  # type: ignore[misc]

    def _kill_worker(self) -> None:
        self.random.choice([worker for worker in self.workers if worker.is_alive]).kill()
        self.killed["workers"] += 1

    def _kill_child(self, *, amid: bool = False) -> bool:
        """Kill the child of a worker that is ready: before that Celery would give up the whole worker."""
        self._revive()
        pids = [
            pid
            for worker in self.workers
            if worker.is_alive and worker._is_ready
            for pid in worker.children()
        ]
        _signal(pids, signal.SIGSTOP)  # what is read of them stays true until one is killed
        try:
            eventually(self._is_quiet, "the database has done what it was told before", every=0.005)
            struck = [pid for pid in pids if not amid or self._is_amid(pid)]
            with suppress(ProcessLookupError, IndexError):
                os.kill(self.random.choice(struck), signal.SIGKILL)
                self.killed["children"] += 1
                return True
            return False
        finally:
            _signal(pids, signal.SIGCONT)

    def _is_quiet(self) -> bool:
        with connections[self.site.rows.alias].cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND state = 'active' AND pid <> pg_backend_pid()"
            )
            return bool(cursor.fetchone() == (0,))

    def _is_amid(self, pid: int) -> bool:
        """Whether the process is in a body whose effect nobody sees yet."""
        begun = [entry["key"] for entry in self.site.journal.read("started") if entry["pid"] == pid]
        if not begun or int(begun[-1].rpartition("-")[2]) % RETRIED == 2:
            return False
        return not Effect.objects.using(self.site.rows.alias).filter(key=begun[-1]).exists()

    def _revive(self) -> bool:
        for worker in self.workers:
            if not worker.is_alive:
                worker.launch()
        return True

    def done(self) -> int:
        """Count the effects."""
        return Effect.objects.using(self.site.rows.alias).count()

    def calm(self) -> None:
        """Wait until every key has succeeded; the source sends again what the broker never delivered."""
        eventually(
            lambda: self._revive() and self._is_calm(), "nothing moves any more", within=120, every=0.2
        )
        forgotten = sorted(self.keys.keys() - self._rows().keys())
        print(f"{dict(self.killed)} killed; forgotten by the broker: {forgotten}")
        assert len(forgotten) <= self.killed["workers"], "a dying worker loses the one message that it reads"
        assert not set(forgotten) & {key for key in self.keys if self.keys[key]}, (
            "reserved calls are not lost"
        )
        assert not set(forgotten) & set(self.starts()), "nor is one that was started"
        for key in forgotten:
            self._send(key)
        eventually(lambda: self._revive() and self._succeeded() == len(self.keys), "all succeeded", within=60)
        self.site.broker.wait_until_empty()

    def _is_calm(self) -> bool:
        """Whether no message is left, and no key waits for one."""
        return self.site.broker.is_empty() and set(self._rows().values()) == {State.SUCCEEDED}

    def _rows(self) -> dict[str, int]:
        rows = IdempotencyKey.objects.using(self.site.rows.alias).values_list("key_text", "state")
        return {key.removeprefix("key="): state for key, state in rows}

    def _succeeded(self) -> int:
        return sum(state == State.SUCCEEDED for state in self._rows().values())

    def effects(self) -> Counter[str]:
        """How often each key had its effect."""
        return Counter(Effect.objects.using(self.site.rows.alias).values_list("key", flat=True))

    def starts(self) -> Iterator[str]:
        """The key of each start of a body."""
        return (entry["key"] for entry in self.site.journal.read("started") if entry["key"] in self.keys)


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
