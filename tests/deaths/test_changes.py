"""Processes, connections and the broker die under a stream of changes: no key misses its last one.

Eight processes write changes and ask for a refresh of their key, in the same transaction or after it; a third
of the transactions is rolled back. Each body notes where another one of its key runs beside it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import pytest
from django.db import connections
from redis import Redis

from django_idempotent_tasks.models import FollowUp, IdempotencyKey
from django_idempotent_tasks.states import LIVE, State
from example_project.servers import Server, start_broker
from tests.sample.models import Effect
from tests.sample.refreshing import DEBOUNCE
from tests.support.waiting import eventually
from tests.support.workers.processes import ROOT, Worker
from tests.support.workers.site import Site
from tests.support.workers.sites import on_broker

pytestmark = pytest.mark.process

WRITERS = 8
OURS = {
    "PROJ_VISIBILITY_TIMEOUT": "4",
    "PROJ_RESULT_BACKEND": "disabled://",
    "PROJ_IDEMPOTENT_TASKS": json.dumps({"REPUBLISH_AFTER": 3}),
}

CUT = """
SELECT count(pg_terminate_backend(pid)) FROM (
  SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
   ORDER BY random() LIMIT 3) AS several
"""
WAITING_TWICE = """
SELECT count(*) FROM django_idempotent_tasks_followup f
  JOIN django_idempotent_tasks_idempotencykey k ON k.digest = f.digest WHERE k.state = 1
"""


@dataclass
class Changes:
    """The processes, and what becomes of what they write."""

    site: Site
    server: Server
    name: str
    workers: list[Worker]
    random: random.Random = field(default_factory=lambda: random.Random(7))
    writers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    struck: Counter[str] = field(default_factory=Counter)

    def begin(self, task: str, *, keys: int, changes: int) -> None:
        """Start the writers."""
        environment = {**os.environ, **self.workers[0].environment}
        for seed in range(WRITERS):
            words = (task, self.name, str(keys), str(changes // WRITERS), str(seed))
            command = [sys.executable, "-m", "tests.support.workers.changes", *words]
            self.writers.append(subprocess.Popen(command, cwd=ROOT, env=environment))

    def rage(self, changes: int, strikes: int) -> None:
        """Strike at even steps of the progress; whoever is dead is started again."""
        blows = (self._kill_child, self._kill_child, self._cut_database, self._cut_broker)
        for number in range(1, strikes + 1):
            goal = 0.55 * changes * number / (strikes + 1)
            eventually(partial(self._goes_on, goal), f"{goal} changes", within=300, every=0.05)
            if number % 10 == 0:
                self._restart_broker()
            elif number % 6 == 0:
                self._kill_worker()
            else:
                self.random.choice(blows)()

    def _goes_on(self, goal: float) -> bool:
        self._revive()
        self.look()
        return len(self.written()) >= goal or all(each.poll() is not None for each in self.writers)

    def look(self) -> None:
        """Never has a key a call that waits and a follow-up beside it."""
        with connections[self.site.rows.alias].cursor() as cursor:
            cursor.execute(WAITING_TWICE)
            assert cursor.fetchone() == (0,)

    def calm(self, within: float) -> None:
        """Wait until the writers have ended and nothing is left to do."""
        for writer in self.writers:
            eventually(partial(self._has_ended, writer), "the changes are written", within=within)
            assert writer.returncode == 0
        eventually(self._is_quiet, "nothing moves any more", within=120, every=0.2)

    def _has_ended(self, writer: subprocess.Popen[bytes]) -> bool:
        self._revive()
        self.look()
        return writer.poll() is not None

    def _is_quiet(self) -> bool:
        self._revive()
        alias = self.site.rows.alias
        is_live = IdempotencyKey.objects.using(alias).filter(state__in=LIVE).exists()
        return not is_live and not FollowUp.objects.using(alias).exists()

    # -- blows --

    def _kill_child(self) -> None:
        pids = [pid for each in self.workers if each.is_alive and each._is_ready for pid in each.children()]
        with suppress(ProcessLookupError, IndexError):
            os.kill(self.random.choice(pids), signal.SIGKILL)
            self.struck["children killed"] += 1

    def _kill_worker(self) -> None:
        self.random.choice([worker for worker in self.workers if worker.is_alive]).kill()
        self.struck["workers killed"] += 1

    def _cut_database(self) -> None:
        with connections[self.site.rows.alias].cursor() as cursor:
            cursor.execute(CUT)
            self.struck["database connections cut"] += cursor.fetchone()[0]

    def _cut_broker(self) -> None:
        with Redis.from_url(self.server.url) as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        self.struck["broker connections cut"] += 1

    def _restart_broker(self) -> None:
        self.server.kill()
        self.server.restart()
        self.struck["broker restarts"] += 1

    def _revive(self) -> None:
        for worker in self.workers:
            if not worker.is_alive:
                worker.launch()

    # -- what was written --

    def written(self) -> list[str]:
        """The keys of all committed changes."""
        return self._effects("change")

    def derived(self) -> dict[str, int]:
        """How many changes the last body of each key has read."""
        rows = Effect.objects.using(self.site.rows.alias).filter(key__startswith=f"derived {self.name}-")
        return {key.partition(" ")[2]: token for key, token in rows.values_list("key", "token")}

    def _effects(self, kind: str) -> list[str]:
        rows = Effect.objects.using(self.site.rows.alias).filter(key__startswith=f"{kind} {self.name}-")
        return [key.partition(" ")[2] for key in rows.values_list("key", flat=True)]

    def runs(self, event: str = "refreshed") -> Counter[str]:
        """How often the bodies of each key have come to their end."""
        found = (entry["key"] for entry in self.site.journal.read(event))
        return Counter(key for key in found if key.startswith(f"{self.name}-"))


@pytest.fixture
def changes(own_site: Site, key: str) -> Iterator[Changes]:
    """Two workers with two children each on a broker that may die; no writer yet."""
    with start_broker() as server, on_broker(own_site, server.url) as place:
        workers = [
            place.worker(f"{name}-{key[-8:]}", "--concurrency", "2", **OURS).launch()
            for name in ("first", "second")
        ]
        for worker in workers:
            worker.wait_until_ready()
        changes = Changes(place, server, key[-8:], workers)
        yield changes
        for writer in changes.writers:
            writer.kill()
            writer.wait()
        for worker in workers:
            worker.kill()


def verify(changes: Changes) -> None:
    """Every key has come to its last change, and no body ran beside another one."""
    written, runs = Counter(changes.written()), changes.runs()
    tried = Counter(each["error"] for each in changes.site.journal.read("tried again"))
    print(
        f"{dict(changes.struck)}; {sum(written.values())} changes of {len(written)} keys,"
        f" {sum(changes.runs('refresh').values())} bodies begun, {sum(runs.values())} ended; {dict(tried)}"
    )
    states = IdempotencyKey.objects.using(changes.site.rows.alias).values_list("state", flat=True)
    assert set(states) == {State.SUCCEEDED}
    assert changes.derived() == dict(written)
    assert changes.runs("beside another") == Counter()
    assert sum(runs.values()) <= sum(written.values())


@pytest.mark.parametrize(
    ("amount", "keys", "strikes"),
    [(800, 100, 8), pytest.param(20_000, 50, 120, marks=pytest.mark.slow)],
    ids=["few", "many"],
)
def test_the_last_change_of_every_key_is_refreshed(
    changes: Changes, amount: int, keys: int, strikes: int
) -> None:
    changes.begin("refresh", keys=keys, changes=amount)
    changes.rage(amount, strikes)
    changes.calm(within=300 + amount / 10)
    verify(changes)


@pytest.mark.parametrize(
    ("amount", "keys", "strikes"),
    [(800, 10, 4), pytest.param(20_000, 50, 60, marks=pytest.mark.slow)],
    ids=["few", "many"],
)
def test_debounced_refreshes_come_to_the_last_change_in_fewer_runs(
    changes: Changes, amount: int, keys: int, strikes: int
) -> None:
    began = time.monotonic()
    changes.begin("settle", keys=keys, changes=amount)
    changes.rage(amount, strikes)
    changes.calm(within=300 + amount / 10)
    verify(changes)
    windows = (time.monotonic() - began) / DEBOUNCE + 1
    assert max(changes.runs().values()) <= windows
