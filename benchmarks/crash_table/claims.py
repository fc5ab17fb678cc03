"""From a kill to the next start of the same work."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median

from benchmarks.crash_table.deaths import PROMPT
from benchmarks.crash_table.deeds import Deed
from benchmarks.crash_table.guards import CAREFUL
from benchmarks.crash_table.stage import Stage
from benchmarks.throughput.fleet import BrokenBenchmark
from example_project.servers.process import send_signal

#: Children that are killed side by side, each at a moment of its own in Celery's round of five seconds.
LANES, ROUND = 4, 5.0
CHILD_SECONDS, WORKER_SECONDS = 20.0, 100.0


@dataclass(frozen=True)
class Delays:
    """Seconds from each kill to the next claim."""

    strike: str
    subject: str
    seconds: Sequence[float]

    @property
    def median(self) -> float:
        """The usual one."""
        return median(self.seconds)


def after_child_deaths(stage: Stage, kills: int) -> Delays:
    """Kill so many children of one worker."""
    with stage.worker(children=LANES), ThreadPoolExecutor(LANES) as lanes:
        seconds = list(lanes.map(lambda number: _after_child(stage, number), range(kills)))
    return Delays("child SIGKILL", stage.subject.title, seconds)


def after_worker_deaths(stage: Stage, kills: int) -> Delays:
    """Kill so many workers, and start another one each time."""
    seconds = [_after_worker(stage) for _ in range(kills)]
    return Delays("worker SIGKILL", stage.subject.title, seconds)


def _after_child(stage: Stage, number: int) -> float:
    key = stage.new_key("child")
    stage.send(CAREFUL, key, Deed.FALL.value, 0.0)
    first = stage.started(key)
    # Without this every kill would follow the end of a round, since the last one was found there.
    stage.watch.till(first.at + random.Random(number).uniform(0, ROUND))
    struck = time.time()
    send_signal(first.pid, signal.SIGKILL)
    return _next_start(stage, key, struck, seconds=CHILD_SECONDS)


def _after_worker(stage: Stage) -> float:
    key = stage.new_key("worker")
    with stage.worker(children=1, **PROMPT) as victim:
        stage.send(CAREFUL, key, Deed.FALL.value, 0.0)
        stage.started(key)
        struck = time.time()
        victim.kill()
    with stage.worker(children=1, **PROMPT):
        return _next_start(stage, key, struck, seconds=WORKER_SECONDS)


def _next_start(stage: Stage, key: str, struck: float, *, seconds: float) -> float:
    second = stage.started(key, 2, seconds=seconds)
    if stage.seen("end", key, seconds=CHILD_SECONDS) is None:
        raise BrokenBenchmark(f"{key} was claimed again and did not end")
    return second.at - struck
